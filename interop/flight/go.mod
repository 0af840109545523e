module github.com/dlx-go/dlx/interop/flight

go 1.25.0

require (
	github.com/apache/arrow-go/v18 v18.8.0 // Arrow's schemas and batches, and the messages of Flight
	github.com/dlx-go/dlx v0.1.0
	github.com/dlx-go/dlx/interop/arrow v0.1.0
	google.golang.org/grpc v1.83.2 // carries Flight; this version lets a codec pass buffers without copying
	google.golang.org/protobuf v1.36.12 // the encoding of Flight's messages
)

require (
	github.com/goccy/go-json v0.10.6 // indirect
	github.com/google/flatbuffers v25.12.19+incompatible // indirect
	github.com/klauspost/compress v1.19.2 // indirect
	github.com/klauspost/cpuid/v2 v2.4.0 // indirect
	github.com/pierrec/lz4/v4 v4.1.29 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	golang.org/x/exp v0.0.0-20260112195511-716be5621a96 // indirect
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260526163538-3dc84a4a5aaa // indirect
)

// Here the adapter is built with the dlx of the same commit. Go ignores these lines in a module that others depend on:
// they get the released versions above.
replace (
	github.com/dlx-go/dlx => ../..
	github.com/dlx-go/dlx/interop/arrow => ../arrow
)
