FROM python:3.11.15-slim-bookworm AS packages
WORKDIR /build
# requirements-scale.txt adds what a Dask cluster needs.
ARG REQUIREMENTS=requirements.txt
COPY requirements.txt requirements-scale.txt ./
RUN python -m venv /opt/venv \
    && /opt/venv/bin/python -m pip install --no-cache-dir --no-compile --disable-pip-version-check -r ${REQUIREMENTS} \
    && /opt/venv/bin/python -m pip uninstall --yes pip setuptools

FROM python:3.11.15-slim-bookworm
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin chunkscope \
    && install --directory --owner chunkscope --group chunkscope /data
COPY --from=packages /opt/venv /opt/venv
WORKDIR /srv/chunkscope
COPY LICENSE README.md ./
COPY .streamlit .streamlit
COPY samples samples
COPY engine engine
COPY app app
COPY pages pages
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    DATA_DIR=/data \
    HOST=0.0.0.0 \
    PORT=8501
USER chunkscope
EXPOSE 8501
VOLUME /data
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=4 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8501/ready', timeout=4)"]
CMD ["python", "-m", "app"]
