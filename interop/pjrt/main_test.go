//go:build cgo && unix

package pjrt_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/live"
	xla "github.com/gomlx/go-xla/pjrt"
	"k8s.io/klog/v2"
)

var ctx = context.Background()

// client is a client of the plugin for the CPU that make installs. There is one, because it makes many threads.
var client *xla.Client

func TestMain(m *testing.M) {
	path := os.Getenv("DLX_PJRT_PLUGIN")
	if path == "" {
		path = "../../.venv-modules/pjrt_c_api_cpu_plugin.so"
	}
	if _, err := os.Stat(path); err != nil {
		fmt.Fprintln(os.Stderr, "no plugin of PJRT: run make .venv-modules/ready, or set DLX_PJRT_PLUGIN:", err)
		os.Exit(1)
	}
	path, err := filepath.Abs(path)
	check(err)
	flags := flag.NewFlagSet("klog", flag.PanicOnError)
	klog.InitFlags(flags)
	check(flags.Set("stderrthreshold", "FATAL"))
	plugin, err := xla.GetPlugin(path)
	check(err)
	client, err = plugin.NewClient(nil)
	check(err)
	live.Count("PJRT_Buffer", xla.BuffersAlive) // of go-xla
	coretest.Main(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// program compiles a function of StableHLO.
func program(t testing.TB, text string) *xla.LoadedExecutable {
	t.Helper()
	p, err := client.Compile().WithStableHLO([]byte(text)).Done()
	must(t, err)
	t.Cleanup(func() { must(t, p.Destroy()) })
	return p
}

const doubling = `module @double {
  func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %y = stablehlo.add %x, %x : tensor<2x3xf32>
    return %y : tensor<2x3xf32>
  }
}`
