"""How times are written: files and tables are read by one rule."""

from datetime import UTC, datetime

import pytest

from dbanon.base.errors import DataError, ParameterError

RIGHT = datetime(2024, 3, 4, 10, 0, 5, tzinfo=UTC)
