# All of dbanon, with PostgreSQL and PostGIS, for trying it out in one container. Build it from the top of the repository:
#   docker build -f docker/tryout.Dockerfile -t dbanon-tryout .
#   docker run --rm dbanon-tryout                              the demo
#   docker run --rm -it --entrypoint bash dbanon-tryout        a shell for the commands of the README
ARG BASE=debian:bookworm-slim
FROM $BASE AS build
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 python3-venv \
 && python3 -m venv /opt/dbanon
COPY pyproject.toml README.md LICENSE /src/
COPY dbanon /src/dbanon
COPY sql /src/sql
COPY migrations /src/migrations
COPY docker /src/docker
RUN /opt/dbanon/bin/pip install --no-cache-dir --no-compile --disable-pip-version-check '/src[all]' \
 && sh /src/docker/slim packages /opt/dbanon

FROM $BASE AS system
COPY docker/slim /usr/local/bin/
# The server is the embedded one of dbanon, which the user dbanon starts: no default cluster.
RUN mkdir -p /etc/postgresql-common/createcluster.d \
 && echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.d/no-main-cluster.conf \
 && apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3 postgresql postgresql-postgis \
 && useradd --system --create-home --home-dir /home/dbanon --shell /bin/bash dbanon \
 && install -d -o dbanon -g dbanon -m 0700 /var/lib/dbanon /var/cache/dbanon \
 && slim system
COPY --from=build /opt/dbanon /opt/dbanon

FROM scratch
COPY --from=system / /
ENV LANG=C.UTF-8 PATH=/opt/dbanon/bin:/usr/local/bin:/usr/bin:/bin NUMBA_CACHE_DIR=/var/cache/dbanon \
    DBANON_HOME=/var/lib/dbanon
USER dbanon
WORKDIR /home/dbanon
VOLUME /var/lib/dbanon /var/cache/dbanon
ENTRYPOINT ["dbanon"]
CMD ["demo"]
