"""Opens a release in QGIS as its user would, and prints what became of it as JSON: run by the system's Python.

``python3 tests/qgis_layer.py '{"connection": {...}, "name": ..., "since": ..., "until": ...}'``

With ``"growing": true`` instead of times it prints a line, keeps the layer open and in the midst of being
read, and prints another line after it was told to go on by a line and has reloaded the layer.
"""

import json
import os
import sys

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from qgis.core import (
    Qgis,
    QgsApplication,
    QgsDataSourceUri,
    QgsDateTimeRange,
    QgsFeatureRequest,
    QgsMapRendererSequentialJob,
    QgsMapSettings,
    QgsProviderRegistry,
    QgsVectorLayer,
    QgsVectorLayerTemporalContext,
    QgsVectorLayerTemporalProperties,
)
from qgis.PyQt.QtCore import QDateTime, QSize, Qt


def open_layer(asked: dict) -> tuple:
    """Open a release with the key that QGIS proposes for a view: the first of the columns that may be one."""
    at, uri = asked["connection"], QgsDataSourceUri()
    uri.setConnection(at["host"], at["port"], at["dbname"], at["user"], at["password"])
    provider = QgsProviderRegistry.instance().providerMetadata("postgres")
    listed = provider.createConnection(uri.uri(False), {}).table("published", asked["name"])
    uri.setDataSource("published", asked["name"], listed.geometryColumn(), "", listed.primaryKeyColumns()[0])
    return QgsVectorLayer(uri.uri(False), asked["name"], "postgres"), listed


def count(shown: QgsVectorLayer, condition: str) -> int:
    return sum(1 for _ in shown.getFeatures(QgsFeatureRequest().setFilterExpression(condition)))


def count_drawn_pixels(shown: QgsVectorLayer, span: QgsDateTimeRange) -> list:
    """How many pixels of a map of the layer at a time have which colour, the commonest first."""
    settings = QgsMapSettings()
    settings.setLayers([shown])
    settings.setExtent(shown.extent())
    settings.setOutputSize(QSize(400, 400))
    settings.setDestinationCrs(shown.crs())
    settings.setTemporalRange(span)
    settings.setIsTemporal(True)
    job = QgsMapRendererSequentialJob(settings)
    job.start()
    job.waitForFinished()
    image, found = job.renderedImage(), {}
    for x in range(image.width()):
        for y in range(image.height()):
            colour = image.pixelColor(x, y).name()
            found[colour] = found.get(colour, 0) + 1
    return sorted(found.items(), key=lambda one: -one[1])


def main(asked: dict) -> dict:
    shown, listed = open_layer(asked)
    told = {
        "valid": shown.isValid(),
        "key": [shown.fields()[i].name() for i in shown.primaryKeyAttributes()],
        "crs": shown.crs().authid(),
        "comment": listed.comment(),
        "rows": shown.featureCount(),
    }
    times = shown.temporalProperties()
    times.setIsActive(True)
    times.setMode(QgsVectorLayerTemporalProperties.ModeFeatureDateTimeStartAndEndFromFields)
    times.setStartField("valid_from")
    times.setEndField("valid_to")
    times.setLimitMode(Qgis.VectorTemporalLimitMode.IncludeBeginExcludeEnd)
    since, until = (QDateTime.fromString(asked[end], Qt.ISODate) for end in ("since", "until"))
    span, within = QgsDateTimeRange(since, until, True, False), QgsVectorLayerTemporalContext()
    within.setLayer(shown)
    told["filter"] = times.createFilterString(within, span)
    told["rows_in_span"] = count(shown, told["filter"])
    told["drawn"] = count_drawn_pixels(shown, span)
    return told


def read_features(shown: QgsVectorLayer) -> dict:
    """Read all features, and when the last of them begins."""
    starts = [one["valid_from"].toString(Qt.ISODate) for one in shown.getFeatures()]
    return {"valid": shown.isValid(), "rows": shown.featureCount(), "read": len(starts), "last": max(starts)}


def keep_open(asked: dict) -> None:
    shown, _ = open_layer(asked)
    print(json.dumps(read_features(shown)), flush=True)
    reading = shown.getFeatures()
    next(reading)
    sys.stdin.readline()
    shown.reload()
    print(json.dumps({**read_features(shown), "rest": sum(1 for _ in reading)}), flush=True)


application = QgsApplication([], False)
application.initQgis()
asked = json.loads(sys.argv[1])
if asked.get("growing"):
    keep_open(asked)
else:
    print(json.dumps(main(asked)), flush=True)
os._exit(0)  # QGIS may crash when it is taken down
