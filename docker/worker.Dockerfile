# dbanon itself, as the worker of compose.yaml and for every other command; /opt/dbanon/share/dbanon.sql installs it through
# psql. Build it from the top of the repository:
#   docker build -f docker/worker.Dockerfile -t dbanon-worker .
FROM debian:bookworm-slim AS build
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 python3-venv \
 && python3 -m venv /opt/dbanon
COPY pyproject.toml hatch_build.py README.md LICENSE /src/
COPY dbanon /src/dbanon
COPY sql /src/sql
COPY migrations /src/migrations
COPY docker /src/docker
RUN /opt/dbanon/bin/pip install --no-cache-dir --disable-pip-version-check '/src[metrics]' \
 && install -D -m 0644 /opt/dbanon/lib/python*/site-packages/dbanon/dbanon.sql /opt/dbanon/share/dbanon.sql

FROM debian:bookworm-slim
ENV LANG=C.UTF-8 PATH=/opt/dbanon/bin:$PATH NUMBA_CACHE_DIR=/var/cache/dbanon
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --home-dir /nonexistent --shell /usr/sbin/nologin dbanon \
 && install -d -o dbanon -g dbanon -m 0700 /var/cache/dbanon
COPY --from=build /opt/dbanon /opt/dbanon
COPY docker/make-worker-login /usr/local/bin/make-worker-login
USER dbanon
ENTRYPOINT ["dbanon"]
CMD ["worker"]
