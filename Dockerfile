# The command and the service of exported models, without Ray and MLflow; for a node of a cluster see
# scripts/cluster/Dockerfile.
#
#   docker build -t paretolab .
#   docker run --rm -v "$PWD:/work" paretolab run configs/quickstart.yaml --workers serial
#   docker run --rm -v "$PWD:/work" -p 8765:8765 paretolab serve models/loans --host 0.0.0.0
FROM python:3.11-slim

# LightGBM needs OpenMP
RUN apt-get update \
    && apt-get install -y --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/paretolab
COPY pyproject.toml constraints.txt README.md ./
COPY scripts/one_package.py scripts/kernels.py scripts/
COPY framework framework
COPY algorithms algorithms
COPY tracking tracking
COPY configs configs
RUN pip install --no-cache-dir -c constraints.txt ".[boosting,parquet,plots,pymoo,serve,solvers]" \
    && python scripts/kernels.py \
    && rm -rf /opt/paretolab

RUN useradd --create-home --uid 1000 paretolab
USER paretolab
WORKDIR /work
EXPOSE 8765
ENTRYPOINT ["paretolab"]
CMD ["--help"]
