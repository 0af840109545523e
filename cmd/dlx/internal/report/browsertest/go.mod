module github.com/dlx-go/dlx/cmd/dlx/internal/report/browsertest

go 1.25.0

require (
	github.com/chromedp/cdproto v0.0.0-20250724212937-08a3db8b4327
	github.com/chromedp/chromedp v0.14.2 // drives Chromium in the tests of pages
	github.com/dlx-go/dlx v0.0.0
)

require (
	github.com/NVIDIA/go-nvml v0.12.4-1 // indirect
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	github.com/chromedp/sysutil v1.1.0 // indirect
	github.com/ebitengine/purego v0.11.3 // indirect
	github.com/go-gl/gl v0.0.0-20231021071112-07e5d0ea2e71 // indirect
	github.com/go-json-experiment/json v0.0.0-20250725192818-e39067aee2d2 // indirect
	github.com/gobwas/httphead v0.1.0 // indirect
	github.com/gobwas/pool v0.2.1 // indirect
	github.com/gobwas/ws v1.4.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/vulkan-go/vulkan v0.0.0-20221209234627-c0a353ae26c8 // indirect
	golang.org/x/perf v0.0.0-20260709024250-82a0b07e230d // indirect
	golang.org/x/sys v0.47.0 // indirect
	gorgonia.org/cu v0.9.6 // indirect
)

// The pages are those of the same commit.
replace github.com/dlx-go/dlx => ../../../../../
