# One static binary in an empty image. Build it from a clone, so that `weir version` knows tag and commit:
#
#   docker build -t weir .
#
# BuildKit, which is Docker's own since version 23, sets BUILDPLATFORM and TARGETARCH, so that an image for another
# processor is compiled and not emulated.

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETARCH
RUN CGO_ENABLED=0 GOARCH=$TARGETARCH go build -trimpath -tags timetzdata,grpcnotrace -ldflags "-s -w" -o /out/weir ./cmd/weir
RUN mkdir -m 700 /out/data && cp LICENSE /out/ && tools/notices >/out/THIRD-PARTY-NOTICES

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/weir /out/LICENSE /out/THIRD-PARTY-NOTICES /
COPY --from=build --chown=65532:65532 /out/data /var/lib/weir
ENV WEIR_DATA_DIR=/var/lib/weir
USER 65532:65532
EXPOSE 8080 9090
ENTRYPOINT ["/weir"]
CMD ["run", "-c", "/etc/weir/weir.yaml"]
