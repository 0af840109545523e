package machines

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// docs/remote.md shows these programs; what it shows must be what compiles.
func TestTheDocumentationShowsThesePrograms(t *testing.T) {
	page, err := os.ReadFile("../../docs/remote.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"receive", "send", "offer", "fetch"} {
		source, err := os.ReadFile(filepath.Join(name, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		_, code, _ := strings.Cut(string(source), "\nfunc main() {\n")
		code, _, _ = strings.Cut(code, "\nfunc check(")
		if !strings.Contains(string(page), "```go\nfunc main() {\n"+code+"```") {
			t.Errorf("docs/remote.md does not show %s/main.go as it is", name)
		}
	}
}
