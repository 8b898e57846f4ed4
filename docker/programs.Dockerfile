# The images with dbanon's programs. Build them from the top of the repository:
#   docker build -f docker/programs.Dockerfile --target worker -t dbanon-worker .
#   docker build -f docker/programs.Dockerfile --target tryout -t dbanon-tryout .
# The worker is that of compose.yaml: what computes runs, and every command that reads no files; /opt/dbanon/share/dbanon.sql
# installs dbanon through psql. PARTS names its extras: `--build-arg PARTS=dask` for `worker --scheduler`. The other has all
# of dbanon with PostgreSQL and PostGIS, for trying it out in one container:
#   docker run --rm dbanon-tryout                              the demo
#   docker run --rm -it --entrypoint bash dbanon-tryout        a shell for the commands of the README
# Each is one layer, without what no program in it reads. What runs need is compiled ahead, for processors like the one that
# the image is built on; COMPILED names the methods, all if there are none.
ARG BASE=debian:bookworm-slim
FROM $BASE AS needs
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

FROM needs AS build
COPY . /src
RUN cd /src \
 && PYTHONPATH=$(echo /opt/dbanon/lib/python3*/site-packages) python -m hatchling build -t wheel \
 && pip --python /opt/dbanon install --no-deps --force-reinstall dist/*.whl \
 && install -D -m 0644 /opt/dbanon/lib/python*/site-packages/dbanon/dbanon.sql /opt/dbanon/share/dbanon.sql \
 && /opt/dbanon/bin/python -m compileall -q /opt/dbanon/lib/python*/site-packages/dbanon

FROM $BASE AS worker-system
COPY docker/slim docker/make-worker-login /usr/local/bin/
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 \
 && useradd --system --home-dir /nonexistent --shell /usr/sbin/nologin dbanon \
 && install -d -o dbanon -g dbanon -m 0700 /var/cache/dbanon \
 && slim system
COPY --from=build /opt/dbanon /opt/dbanon
ARG COMPILED
USER dbanon
RUN NUMBA_CACHE_DIR=/var/cache/dbanon /opt/dbanon/bin/dbanon _compile $COMPILED

FROM scratch AS worker
COPY --from=worker-system / /
ENV LANG=C.UTF-8 PATH=/opt/dbanon/bin:/usr/local/bin:/usr/bin:/bin NUMBA_CACHE_DIR=/var/cache/dbanon
USER dbanon
# All that is written to, also with --read-only: what was compiled for this machine, and the pulse, which is in memory.
VOLUME /var/cache/dbanon
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["sh", "-c", "[ $(($(date +%s) - $(stat -c %Y /dev/shm/dbanon-pulse))) -lt 60 ]"]
ENTRYPOINT ["dbanon"]
CMD ["worker", "--heartbeat", "/dev/shm/dbanon-pulse"]

FROM needs AS all
RUN pip --python /opt/dbanon install "/needs[all]" \
 && slim packages /opt/dbanon

FROM $BASE AS tryout-system
COPY docker/slim /usr/local/bin/
# The server is the embedded one of dbanon, which the user dbanon starts: no default cluster. It compiles no queries: LLVM
# is 150 MB.
RUN mkdir -p /etc/postgresql-common/createcluster.d \
 && echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.d/no-main-cluster.conf \
 && apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 postgresql postgresql-postgis \
 && useradd --system --create-home --home-dir /home/dbanon --shell /bin/bash dbanon \
 && install -d -o dbanon -g dbanon -m 0700 /var/lib/dbanon /var/cache/dbanon \
 && rm -rf /usr/lib/*/libLLVM* /usr/lib/*/libz3* /usr/lib/postgresql/*/lib/llvmjit* /usr/lib/postgresql/*/lib/bitcode \
 && slim system
COPY --from=all /opt/dbanon /opt/dbanon
COPY --from=build /opt/dbanon /opt/dbanon
ARG COMPILED
USER dbanon
RUN NUMBA_CACHE_DIR=/var/cache/dbanon /opt/dbanon/bin/dbanon _compile $COMPILED

FROM scratch AS tryout
COPY --from=tryout-system / /
ENV LANG=C.UTF-8 PATH=/opt/dbanon/bin:/usr/local/bin:/usr/bin:/bin NUMBA_CACHE_DIR=/var/cache/dbanon \
    DBANON_HOME=/var/lib/dbanon
USER dbanon
WORKDIR /home/dbanon
VOLUME /var/lib/dbanon /var/cache/dbanon
ENTRYPOINT ["dbanon"]
CMD ["demo"]
