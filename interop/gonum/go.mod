module github.com/dlx-go/dlx/interop/gonum

go 1.25.0

require (
	github.com/dlx-go/dlx v0.1.0
	gonum.org/v1/gonum v0.17.0 // matrices and vectors
)

// Here the adapter is built with the dlx of the same commit. Go ignores this line in a module that others depend on:
// they get the released version above.
replace github.com/dlx-go/dlx => ../..
