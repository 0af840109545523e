module github.com/dlx-go/dlx/interop/arrow

go 1.25.0

require (
	github.com/apache/arrow-go/v18 v18.8.0 // Arrow's tensors and arrays
	github.com/dlx-go/dlx v0.1.0
)

require (
	github.com/goccy/go-json v0.10.6 // indirect
	github.com/google/flatbuffers v25.12.19+incompatible // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/klauspost/cpuid/v2 v2.4.0 // indirect
	github.com/pierrec/lz4/v4 v4.1.29 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	golang.org/x/exp v0.0.0-20260112195511-716be5621a96 // indirect
	golang.org/x/sys v0.47.0 // indirect
	gorgonia.org/cu v0.9.6 // indirect
)

// Here the adapter is built with the dlx of the same commit. Go ignores this line in a module that others depend on:
// they get the released version above.
replace github.com/dlx-go/dlx => ../..
