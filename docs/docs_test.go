package docs_test

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// These pages say where a change belongs, by the names of files and folders. Whoever renames a file must rename it
// there as well. A name without a folder, such as `plan.go`, is a file in one of the folders that the same
// line names.
func TestArchitectureNamesWhatExists(t *testing.T) {
	var page []byte
	for _, name := range []string{"architecture.md", "changes.md", "packages.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		page = append(page, text...)
	}
	placeholders := map[string]bool{"backends/NAME": true, "interop/NAME": true, "backends/...": true, "internal/driver": true}
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

// Relative links of all pages name files that exist, and headings of the pages that they name.
func TestLinks(t *testing.T) {
	heading := regexp.MustCompile(`(?m)^#+ (.*)$`)
	notInAnchors := regexp.MustCompile("[^a-z0-9 _-]")
	anchors := func(page string) map[string]bool {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, h := range heading.FindAllStringSubmatch(string(text), -1) {
			found[strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")] = true
		}
		return found
	}
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	code := regexp.MustCompile("(?s)```.*?```|`[^`]*`")
	checked := 0
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			checked++
			name, anchor, _ := strings.Cut(found[1], "#")
			target := filepath.Join(filepath.Dir(page), filepath.FromSlash(name))
			if name == "" {
				target = page
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, found[1])
			} else if anchor != "" && !anchors(target)[anchor] {
				t.Errorf("%s links to %s, which has no such heading", page, found[1])
			}
		}
	}
	if checked < 80 {
		t.Errorf("found %d links; the pattern does not find them", checked)
	}
}

// pages returns the pages of the project, without those of directories that git ignores.
func pages(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir("..", func(name string, entry os.DirEntry, err error) error {
		base := filepath.Base(name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && name != "..":
			return nil // a temporary file of a test that runs at the same time
		case err != nil:
			return err
		case entry.IsDir() && name != ".." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "dist" || base == "target" || base == "bin"):
			return filepath.SkipDir
		case filepath.Ext(name) == ".md":
			found = append(found, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A newcomer reads these pages from the beginning to the end. What they have no room for belongs to a page of its own.
func TestPagesStayShort(t *testing.T) {
	for page, limit := range map[string]int64{"../README.md": 8 << 10, "../RATIONALE.md": 50 << 10, "architecture.md": 12 << 10} {
		info, err := os.Stat(page)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > limit {
			t.Errorf("%s has %d bytes, more than %d", page, info.Size(), limit)
		}
	}
}
