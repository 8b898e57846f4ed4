"""The utility of what is published: pure functions of true positions and of what is told about them."""
