package docs_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// architecture.md says where a change belongs, by the names of files and folders. Whoever renames a file must
// rename it there, too. A name without a folder, such as `plan.go`, is a file in one of the folders that the same
// line names.
func TestArchitectureNamesWhatExists(t *testing.T) {
	page, err := os.ReadFile("architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	placeholders := map[string]bool{"backends/NAME": true, "backends/...": true, "internal/driver": true}
	quoted := regexp.MustCompile("`([^` ]+)`")
	checked := 0
	for line := range strings.Lines(string(page)) {
		folders := []string{"backends/*"} // "of the backend"
		var files []string
		for _, found := range quoted.FindAllStringSubmatch(line, -1) {
			name := found[1]
			switch {
			case placeholders[name]:
			case strings.Contains(name, "/"):
				checked++
				if !exists(name) {
					t.Errorf("the page names %s, which does not exist", name)
				}
				folders = append(folders, name, path.Dir(name))
			case strings.HasSuffix(name, ".go"):
				files = append(files, name)
			default: // such as `stream` and `cudalike`, if it is a folder
				folders = append(folders, name, "backends/internal/"+name)
			}
		}
		for _, name := range files {
			checked++
			if !existsIn(folders, name) {
				t.Errorf("the page names %s, which is in none of the folders %q", name, folders)
			}
		}
	}
	if checked < 80 {
		t.Errorf("the page names %d files and folders; the pattern does not find them", checked)
	}
}

func existsIn(folders []string, name string) bool {
	for _, folder := range folders {
		if exists(path.Join(folder, name)) {
			return true
		}
	}
	return false
}

// exists reports whether a path below the root of the repository, which may have wildcards, exists.
func exists(name string) bool {
	matches, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(name)))
	return err == nil && len(matches) > 0
}
