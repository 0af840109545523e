module github.com/dlx-go/dlx/interop/otel

go 1.25.0

require (
	github.com/dlx-go/dlx v0.1.0
	go.opentelemetry.io/otel v1.46.0
	go.opentelemetry.io/otel/sdk v1.46.0 // records spans in tests
	go.opentelemetry.io/otel/trace v1.46.0 // the spans of moves
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel/metric v1.46.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
)

// Here the adapter is built with the dlx of the same commit. Go ignores this line in a module that others depend on:
// they get the released version above.
replace github.com/dlx-go/dlx => ../..
