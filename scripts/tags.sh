#!/usr/bin/env bash
# Prints the build tags of dlx, with commas between them: the names of the backends that a build has only with
# their tag, which are those with a file for builds without it.
cd "$(dirname "$0")/.." || exit 1
tags=
for file in backends/*/unbuilt.go; do
  name=${file#backends/}
  tags+=${tags:+,}${name%/*}
done
echo "$tags"
