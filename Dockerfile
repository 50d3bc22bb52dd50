# A campaign server. Build: docker build -t crowdwise .   Run: see compose.yaml and docs/campaign.md.
FROM python:3.11-slim
RUN useradd --create-home --uid 10001 campaign
COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
RUN pip install --no-cache-dir "/src[campaign]" && rm -rf /src
USER campaign
WORKDIR /project
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["crowdwise", "serve"]
CMD ["project.toml", "--host", "0.0.0.0", "--port", "8000"]
