// Package page writes HTML pages that need nothing but themselves: tables that sort and filter, charts, matrices and
// pictures of devices, as HTML and SVG. They load nothing from outside, which their content security policy forbids, too.
//
// All text is escaped by html/template. A page can be read in light and dark, on a phone, on paper and by keyboard: a
// chart or a matrix is one stop of the Tab key, and the arrow keys move between its points. What has an aria-label and
// can have the focus shows the label as a tooltip.
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"os"
	"strings"
)

//go:embed parts.tmpl page.css page.js
var files embed.FS

// style and script are the page's own. The policy names their hashes: nothing else is applied or run.
var (
	style  = read("page.css")
	script = read("page.js")
	policy = fmt.Sprintf("default-src 'none'; style-src %s; script-src %s; base-uri 'none'; form-action 'none'", hash(style), hash(script))
)

// parts are the templates. They are set by init, because a template renders others.
var parts *template.Template

func init() {
	parts = template.Must(template.New("").Funcs(template.FuncMap{
		"render":     render,
		"legendMark": func(index int) string { return mark(index, 13, 6) },
		"mechanism":  MechanismClass,
	}).ParseFS(files, "parts.tmpl"))
}

func read(name string) string {
	content, err := files.ReadFile(name)
	if err != nil {
		panic(err) // the file is embedded
	}
	return string(content)
}

func hash(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Page is one HTML file.
type Page struct {
	Title    string
	Lead     []string // lines below the title
	Alerts   []Alert  // what a reader must know before anything else
	Tiles    []Fact   // the figures of the headline
	Sections []Section
	// Data is what the page offers for download as DataName. It is kept compressed.
	Data     []byte
	DataName string
	DataNote string // about the data, such as what it lacks
	Footer   string
}

// Alert is a warning at the top of a page.
type Alert struct {
	Kind  string // "bad", "warn" or "note"
	Text  string
	Items []string // details, which are shown on request
}

// Section is a part of a page with a heading and an entry in the navigation. A section without parts is left out.
type Section struct {
	ID    string
	Title string
	Intro string
	Parts []Part
}

// Part is a piece of a section: a [Text], [Facts], [Bars], [Table], [Lines], [Matrix], [Graph] or [Grid].
type Part interface {
	// template returns the name of the template that writes the part, and what that needs.
	template() (string, any)
}

// render writes a part.
func render(p Part) (template.HTML, error) {
	name, data := p.template()
	var b strings.Builder
	if err := parts.ExecuteTemplate(&b, name, data); err != nil {
		return "", err
	}
	return template.HTML(b.String()), nil //nolint:gosec // a template has escaped it
}

// Write writes the page. It returns os.ErrInvalid if w is nil.
func (p Page) Write(w io.Writer) error {
	if w == nil {
		return fmt.Errorf("page: the writer is nil: %w", os.ErrInvalid)
	}
	shell := struct {
		Page
		Policy string
		Style  template.CSS
		Script template.JS
		Packed template.HTML
	}{Page: p, Policy: policy, Style: template.CSS(style), Script: template.JS(script)}
	shell.Sections = nil
	for _, s := range p.Sections {
		if len(s.Parts) > 0 {
			shell.Sections = append(shell.Sections, s)
		}
	}
	if p.Data != nil {
		packed, err := Pack(p.Data)
		if err != nil {
			return err
		}
		shell.Packed = template.HTML(base64.StdEncoding.EncodeToString(packed)) //nolint:gosec // no character of base64 has a meaning in HTML
	}
	// A page that cannot be made is not begun.
	var b bytes.Buffer
	if err := parts.ExecuteTemplate(&b, "page", shell); err != nil {
		return err
	}
	_, err := b.WriteTo(w)
	return err
}

// Pack compresses data as a page keeps it.
func Pack(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(data); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// Text is a paragraph.
type Text string

func (t Text) template() (string, any) { return "text", t }

// Fact is a name with a value.
type Fact struct {
	Name  string
	Value string
	Note  string // in small letters below the value
}

// Facts is a list of facts. Those without a value are left out.
type Facts struct {
	Title string
	List  []Fact
}

func (f Facts) template() (string, any) {
	known := Facts{Title: f.Title}
	for _, one := range f.List {
		if one.Value != "" {
			known.List = append(known.List, one)
		}
	}
	return "facts", known
}

// Grid shows parts side by side where there is room.
type Grid []Part

func (g Grid) template() (string, any) { return "grid", g }
