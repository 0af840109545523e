module github.com/dlx-go/dlx/interop/triton

go 1.25.0

require (
	github.com/dlx-go/dlx v0.1.0
	golang.org/x/sys v0.47.0 // shared memory: fallocate and flock
	google.golang.org/grpc v1.84.0 // the server's gRPC
	google.golang.org/protobuf v1.36.11 // its messages, and the plugin that generates them
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/text v0.40.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260706201446-f0a921348800 // indirect
	gorgonia.org/cu v0.9.6 // indirect
)

// Here the adapter is built with the dlx of the same commit. Go ignores this line in a module that others depend on:
// they get the released version above.
replace github.com/dlx-go/dlx => ../..
