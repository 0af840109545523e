module github.com/dlx-go/dlx

// Dependencies have the newest version that builds with this version of Go. core, core/dlpack and stream need the
// standard library only.
go 1.25.0

require (
	github.com/NVIDIA/go-nvml v0.12.4-1 // clocks, throttling and peaks of NVIDIA cards, with tag cuda only; it opens its library at run time and brings a mock for tests
	github.com/ebitengine/purego v0.11.3 // C calls without cgo, and Objective-C blocks: Metal, with tag metal, and its tests on Linux
	github.com/go-gl/gl v0.0.0-20231021071112-07e5d0ea2e71 // OpenGL 4.5 core, with tag gl only. Packages that also have GL_EXT_memory_object_fd take four times as long to compile, so backends/gl/internal/ext calls that extension
	github.com/prometheus/client_golang v1.24.1 // the collector and the handler of package metrics, and Prometheus' own checks of names
	github.com/prometheus/client_model v0.6.2 // parses metrics in tests of the command
	github.com/prometheus/common v0.70.1 // parses metrics in tests of the command
	github.com/rs/zerolog v1.35.1 // the log of the command
	github.com/schollz/progressbar/v3 v3.19.1 // the progress bar of the command
	github.com/spf13/cobra v1.10.2 // the command: flags, help, completion
	github.com/spf13/pflag v1.0.9 // cobra's flags, which a process that measures gets as well
	github.com/vulkan-go/vulkan v0.0.0-20221209234627-c0a353ae26c8 // Vulkan, with tag vulkan only. The last version that opens libvulkan itself, made from header 1.1.88; a cgo file of dlx calls what came later
	golang.org/x/sys v0.47.0 // memfd, mmap, VirtualAlloc, and whether the processor has a fast REP MOVSB
	golang.org/x/term v0.45.0 // reports whether standard error is a terminal
	gonum.org/v1/plot v0.17.0 // the figures of dlx bench --plot; brings fonts and writers of SVG and PNG
	gorgonia.org/cu v0.9.6 // CUDA's devices, contexts, memory, streams, events and modules, with tag cuda only. A cgo file of dlx has what cu lacks and what must be fast
)

require (
	codeberg.org/go-fonts/liberation v0.5.0 // indirect
	codeberg.org/go-latex/latex v0.2.0 // indirect
	codeberg.org/go-pdf/fpdf v0.11.1 // indirect
	git.sr.ht/~sbinet/gg v0.7.0 // indirect
	github.com/ajstarks/svgo v0.0.0-20211024235047-1546f124cd8b // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/golang/freetype v0.0.0-20170609003504-e2365dfdc4a0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/kylelemons/godebug v1.1.0 // indirect
	github.com/mattn/go-colorable v0.1.14 // indirect
	github.com/mattn/go-isatty v0.0.22 // indirect
	github.com/mitchellh/colorstring v0.0.0-20190213212951-d06e56a500db // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/prometheus/procfs v0.21.1 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	golang.org/x/image v0.44.0 // indirect
	golang.org/x/text v0.40.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)

require (
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // Student's t distribution
	golang.org/x/perf v0.0.0-20260709024250-82a0b07e230d // the U test, the interval of a median, and Go's text of benchmarks
)
