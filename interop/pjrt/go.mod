module github.com/dlx-go/dlx/interop/pjrt

go 1.26

require (
	github.com/dlx-go/dlx v0.1.0
	github.com/gomlx/compute v0.0.0-20260728052203-194c83015e3e // the names of PJRT's element types
	github.com/gomlx/go-xla v0.4.0 // PJRT's clients and buffers; needs Go 1.26
	k8s.io/klog/v2 v2.140.0 // go-xla's log, which the tests silence
)

require (
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	golang.org/x/exp v0.0.0-20260410095643-746e56fc9e2f // indirect
	golang.org/x/sys v0.47.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)

replace github.com/dlx-go/dlx => ../..
