-- Draws a release of one instant as SVG: rectangles are rows that hide people, dots are rows that are exact.
--   psql -AtqX -v release=city_0810 -f docs/map.sql "$(dbanon db url)" > docs/map.svg
WITH release AS (
  SELECT region, cloaked, crowd, sum(subjects) AS people
  FROM published.:"release"
  GROUP BY region, cloaked, crowd
), frame AS (
  SELECT ST_XMin(box) - 60 AS x0, ST_YMin(box) - 90 AS y0, ST_XMax(box) + 60 AS x1, ST_YMax(box) + 60 AS y1
  FROM (SELECT ST_Extent(region) AS box FROM release) AS extent
), shape AS (  -- metres from the lower left corner of the frame; in SVG, y points down
  SELECT release.cloaked, release.people, ST_Translate(release.region, -frame.x0, -frame.y1) AS area,
    frame.x1 - frame.x0 AS width, frame.y1 - frame.y0 AS height
  FROM release, frame
)
SELECT format('<svg xmlns="http://www.w3.org/2000/svg" width="%3$s" height="%4$s" viewBox="0 0 %1$s %2$s" '
              'font-family="sans-serif">',
              round(min(width)), round(min(height)), round(min(width) / 4), round(min(height) / 4))
FROM shape
UNION ALL SELECT '<rect width="100%" height="100%" fill="#f7f7f4"/>'
UNION ALL (
  SELECT format('<circle cx="%s" cy="%s" r="9" fill="#4a6fa5"/>', round(ST_X(centre)), round(-ST_Y(centre)))
  FROM (SELECT ST_Centroid(area) AS centre FROM shape WHERE NOT cloaked) AS exact
  ORDER BY ST_X(centre), ST_Y(centre)
)
UNION ALL (
  SELECT format(E'<path d="%s" fill="#c8553d" fill-opacity="0.35" stroke="#c8553d" stroke-width="6"/>\n'
                '<text x="%s" y="%s" font-size="48" fill="#c8553d">%s people</text>',
                ST_AsSVG(area, 0, 0), round(ST_XMin(area)), round(14 - ST_YMin(area)) + 40, people)
  FROM shape WHERE cloaked ORDER BY people, ST_XMin(area)
)
UNION ALL
SELECT format(E'<path d="M 60 %s h 500" stroke="#333" stroke-width="6"/>\n'
              '<text x="580" y="%s" font-size="44" fill="#333">500 m</text>', y, y + 14)
FROM (SELECT round(min(height)) - 40 AS y FROM shape) AS scale
UNION ALL SELECT '</svg>';
