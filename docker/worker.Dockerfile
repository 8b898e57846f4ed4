# The worker of compose.yaml: what computes runs, and every command that reads no files; /opt/dbanon/share/dbanon.sql
# installs dbanon through psql. Build it from the top of the repository:
#   docker build -f docker/worker.Dockerfile -t dbanon-worker .
# PARTS names the extras: `--build-arg PARTS=dask` for `worker --scheduler`. It is one layer, without what no program in
# it reads.
ARG BASE=debian:bookworm-slim
FROM $BASE AS build
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 python3-venv \
 && python3 -m venv /opt/build \
 && python3 -m venv --without-pip /opt/dbanon
ENV PATH=/opt/build/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN pip install hatchling
ARG PARTS=compute
# First what dbanon needs, for an empty package in its place: Docker keeps that until pyproject.toml changes.
COPY pyproject.toml /needs/all.toml
COPY docker/slim /usr/local/bin/
RUN mkdir /needs/dbanon \
 && touch /needs/README.md /needs/dbanon/__init__.py \
 && sed '/^\[tool/,$d' /needs/all.toml > /needs/pyproject.toml \
 && pip --python /opt/dbanon install "/needs[$PARTS]" \
 && slim packages /opt/dbanon
COPY . /src
RUN cd /src \
 && PYTHONPATH=$(echo /opt/dbanon/lib/python3*/site-packages) python -m hatchling build -t wheel \
 && pip --python /opt/dbanon install --no-deps --force-reinstall dist/*.whl \
 && install -D -m 0644 /opt/dbanon/lib/python*/site-packages/dbanon/dbanon.sql /opt/dbanon/share/dbanon.sql \
 && /opt/dbanon/bin/python -m compileall -q /opt/dbanon/lib/python*/site-packages/dbanon

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
