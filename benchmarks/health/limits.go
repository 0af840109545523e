// Package health compares the results of benchmarks with what is expected of a machine.
package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/strictjson"
)

// Schema is that of a file of limits.
const Schema = "dlx-limits/1"

// Limits are what results must keep.
type Limits struct {
	Schema string  `json:"schema"`
	Limits []Limit `json:"limits"`
}

// Limit is what the results of some cases must keep.
type Limit struct {
	// Case is the name of a case, or a pattern of [path.Match] for names. A pattern without a slash at its end that a name
	// continues after a slash is for that name, too: "host_to_device*" is for "host_to_device_memcpy_ce/cuda:0".
	Case  string  `json:"case"`
	MinGB float64 `json:"min_gb_per_s,omitempty"`
	MaxNS float64 `json:"max_ns,omitempty"` // of the median
}

// matches reports whether the limit is for a case.
func (l Limit) matches(name string) bool {
	if l.Case == name {
		return true
	}
	for {
		if ok, _ := path.Match(l.Case, name); ok {
			return true
		}
		i := strings.LastIndexByte(name, '/')
		if i < 0 {
			return false
		}
		name = name[:i]
	}
}

// Matches reports whether one of the limits is for a case.
func (l *Limits) Matches(name string) bool {
	if l == nil {
		return false
	}
	for _, one := range l.Limits {
		if one.matches(name) {
			return true
		}
	}
	return false
}

// Read reads a file of limits. The errors wrap core.ErrInvalid, or core.ErrVersion for another schema, and say where the file
// is wrong.
func Read(r io.Reader, name string) (*Limits, error) {
	if r == nil {
		return nil, core.Errorf(core.ErrInvalid, "bench", "healthcheck", "the reader of %s is nil", name)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	wrong := func(format string, args ...any) error {
		return core.Errorf(core.ErrInvalid, "bench", "healthcheck", "%s is not a file of limits: %s", name, fmt.Sprintf(format, args...))
	}
	// A file of another schema may have other keys: ask for the schema first.
	var head struct {
		Schema string `json:"schema"`
	}
	if err := strictjson.Unmarshal(content, &head); err != nil {
		return nil, wrong("%s", jsonText(err))
	}
	if head.Schema != Schema {
		return nil, core.Errorf(core.ErrVersion, "bench", "healthcheck", "%s has schema %q; a file of limits has %q", name, head.Schema, Schema)
	}
	var l Limits
	if err := strictjson.UnmarshalKnown(content, &l); err != nil {
		return nil, wrong("%s", jsonText(err))
	}
	if len(l.Limits) == 0 {
		return nil, wrong("it has no limits")
	}
	seen := make(map[string]bool)
	for i, one := range l.Limits {
		if err := one.check(); err != nil {
			return nil, wrong("limit %d, for %q: %v", i+1, one.Case, err)
		}
		if seen[one.Case] {
			return nil, wrong("limit %d: there are two for %q", i+1, one.Case)
		}
		seen[one.Case] = true
	}
	return &l, nil
}

// jsonText is the text of an error of encoding/json without its name.
func jsonText(err error) string {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		if kind.Field == "" {
			return "it is not an object but this: " + kind.Value
		}
		return fmt.Sprintf("%q has a value of a wrong kind: %s", kind.Field, kind.Value)
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

func (l Limit) check() error {
	if l.Case == "" {
		return errors.New(`"case" is missing`)
	}
	if _, err := path.Match(l.Case, ""); err != nil {
		return errors.New(`"case" is not a pattern: a bracket or a backslash does not end`)
	}
	if l.MinGB < 0 || l.MaxNS < 0 {
		return errors.New("a limit must be above 0")
	}
	if l.MinGB == 0 && l.MaxNS == 0 {
		return errors.New(`one of "min_gb_per_s" and "max_ns" must be there, above 0`)
	}
	return nil
}

// Make makes limits of a report: those that results worse by the part margin just keep. It leaves out what was not measured, and
// simulated devices.
func Make(r benchmarks.Report, margin float64) Limits {
	l := Limits{Schema: Schema, Limits: []Limit{}}
	seen := make(map[string]bool)
	for i := range r.Cases {
		c := &r.Cases[i]
		if !usable(c) || seen[c.Name] {
			continue
		}
		one := Limit{Case: literal(c.Name)}
		if c.Kind == benchmarks.Bandwidth && c.GBPerSecond > 0 {
			one.MinGB = significantDigits(c.GBPerSecond * (1 - margin))
		} else {
			one.MaxNS = significantDigits(c.Median * (1 + margin))
		}
		if one.MinGB > 0 || one.MaxNS > 0 {
			seen[c.Name] = true
			l.Limits = append(l.Limits, one)
		}
	}
	return l
}

// literal is a pattern for exactly this name.
func literal(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// significantDigits keeps four digits.
func significantDigits(x float64) float64 {
	if !(x > 0) || math.IsInf(x, 0) {
		return 0
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	if err != nil {
		return 0
	}
	return rounded
}

// usable reports whether a case has a result that limits can be compared with.
func usable(c *benchmarks.Result) bool {
	return c.Status == benchmarks.OK && !c.Simulated && c.Impossible == "" && c.Median > 0 && !math.IsInf(c.Median, 0)
}
