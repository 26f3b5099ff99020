# Two stages: everything is installed by hash in the first, only the environment is copied into the second.
FROM python:3.13-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
RUN python -m venv /opt/venv
COPY requirements.lock ./
RUN /opt/venv/bin/pip install --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY proxy proxy
COPY supervisors supervisors
COPY evals evals
RUN /opt/venv/bin/pip install --no-deps --no-build-isolation . \
    && /opt/venv/bin/python -m compileall -q /opt/venv \
    && /opt/venv/bin/pip uninstall --yes --quiet hatchling editables trove-classifiers pip

FROM python:3.13-slim
# No .pyc writing and no home: the image runs with a read-only root file system. Only /data is written.
ENV PATH=/opt/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin guardrail \
    && mkdir -p /data /etc/guardrail-proxy \
    && chown guardrail:guardrail /data
COPY --from=build /opt/venv /opt/venv
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=15s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/livez', timeout=2)"]
ENTRYPOINT ["guardrail-proxy"]
CMD ["serve", "--config", "/etc/guardrail-proxy/config.yaml"]
