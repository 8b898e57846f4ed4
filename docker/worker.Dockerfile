# The worker of compose.yaml: what computes runs, and every command that reads no files; /opt/dbanon/share/dbanon.sql
# installs dbanon through psql. Build it from the top of the repository:
#   docker build -f docker/worker.Dockerfile -t dbanon-worker .
# PARTS names the extras: `--build-arg PARTS=dask` for `worker --scheduler`. It is one layer, without what no program in
# it reads.
ARG BASE=debian:bookworm-slim
FROM $BASE AS build
ARG PARTS=compute
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 python3-venv \
 && python3 -m venv /opt/dbanon
COPY pyproject.toml hatch_build.py README.md LICENSE /src/
COPY dbanon /src/dbanon
COPY sql /src/sql
COPY migrations /src/migrations
COPY docker /src/docker
RUN /opt/dbanon/bin/pip install --no-cache-dir --no-compile --disable-pip-version-check "/src[$PARTS]" \
 && install -D -m 0644 /opt/dbanon/lib/python*/site-packages/dbanon/dbanon.sql /opt/dbanon/share/dbanon.sql \
 && sh /src/docker/slim packages /opt/dbanon

FROM $BASE AS system
COPY docker/slim docker/make-worker-login /usr/local/bin/
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 \
 && useradd --system --home-dir /nonexistent --shell /usr/sbin/nologin dbanon \
 && install -d -o dbanon -g dbanon -m 0700 /var/cache/dbanon \
 && slim system
COPY --from=build /opt/dbanon /opt/dbanon

FROM scratch
COPY --from=system / /
ENV LANG=C.UTF-8 PATH=/opt/dbanon/bin:/usr/local/bin:/usr/bin:/bin NUMBA_CACHE_DIR=/var/cache/dbanon
USER dbanon
# All that is written to, also with --read-only: what was compiled for this machine, and the pulse, which is in memory.
VOLUME /var/cache/dbanon
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["sh", "-c", "[ $(($(date +%s) - $(stat -c %Y /dev/shm/dbanon-pulse))) -lt 60 ]"]
ENTRYPOINT ["dbanon"]
CMD ["worker", "--heartbeat", "/dev/shm/dbanon-pulse"]
