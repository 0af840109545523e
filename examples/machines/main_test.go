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
	for _, name := range []string{"give", "take", "receive", "send"} {
		source, err := os.ReadFile(filepath.Join(name, "main.go"))
		if err != nil {
			t.Fatal(err)
		}
		_, code, _ := strings.Cut(string(source), "\nfunc main() {\n")
		code, _, _ = strings.Cut(code, "\n}\n")
		if !strings.Contains(string(page), "```go\nfunc main() {\n"+code+"\n}\n```") {
			t.Errorf("docs/remote.md does not show %s/main.go as it is", name)
		}
		if lines := strings.Count(code, "\n") + 1; (name == "give" || name == "take") && lines > 10 {
			t.Errorf("%s/main.go has %d lines between the braces of main, and is to have ten", name, lines)
		}
	}
	python := string(page)
	for _, name := range []string{"one that gives", "one that takes", "receiver", "sender"} {
		var code string
		_, python, _ = strings.Cut(python, "```python\n")
		code, python, _ = strings.Cut(python, "```")
		if lines := strings.Count(code, "\n"); lines == 0 || lines > 10 {
			t.Errorf("the program in Python that is the %s has %d lines, and is to have ten at most", name, lines)
		}
	}
}
