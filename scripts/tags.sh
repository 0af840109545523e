#!/usr/bin/env bash
# Prints the build tags of dlx, separated by commas. They are the names of the backends that have a file for builds
# without their tag, and ucx for package remote.
cd "$(dirname "$0")/.." || exit 1
tags=
for file in backends/*/unbuilt.go; do
  name=${file#backends/}
  tags+=${tags:+,}${name%/*}
done
echo "$tags${tags:+,}ucx"
