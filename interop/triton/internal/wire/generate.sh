#!/usr/bin/env bash
# Writes wire.pb.go beside wire.proto, or into the folder that the argument names. DLX_TRITON_PYTHON is a Python with
# grpcio-tools, which has the compiler of protocol buffers; the plugin is of the version in go.mod.
set -euo pipefail
cd "$(dirname "$0")"
out=$(realpath "${1:-.}")
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -o "$bin/" google.golang.org/protobuf/cmd/protoc-gen-go
PATH=$bin:$PATH "${DLX_TRITON_PYTHON:-../../../../.venv-triton/bin/python}" -m grpc_tools.protoc -I. \
  --go_out="$out" --go_opt=paths=source_relative wire.proto
