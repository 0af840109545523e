package core

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"github.com/dlx-go/dlx/core/typecode"
	"github.com/dlx-go/dlx/internal/hostmem"
)

// TextOptions controls the format of [Tensor.Text]. A field that is 0 means NumPy's default.
type TextOptions struct {
	Threshold int64 // with more elements than this, only those at the ends of the axes are printed; 0 means 1000
	EdgeItems int64 // number of elements printed at each end of an axis in that case; 0 means 3
	Precision int   // largest number of digits after the decimal point; 0 means 8
	LineWidth int   // largest number of characters in a line; 0 means 75
}

// Text formats the elements as NumPy does: in brackets and aligned, with the fewest digits
// that identify each number, and with "..." for elements that are left out. It formats the
// lanes of an element like another axis.
//
// The tensor must be host-accessible. Text blocks until the last write to the memory is
// done and the text is complete, or returns ctx's error if ctx ends first. It returns
// ErrInvalid if t is nil, ErrClosed if it is closed, ErrDevice if it is not host-accessible,
// ErrDType if the type cannot be printed, ErrOutOfMemory if the text does not fit into
// memory, ErrInvalid if the memory is that of a mapped file that was truncated, or the error
// of the last write.
func (t *Tensor) Text(ctx context.Context, o TextOptions) (string, error) {
	b, err := hostBuffer(t, "Text")
	if err != nil {
		return "", err
	}
	if err := t.waitFor(ctx, b, forReading); err != nil {
		return "", err
	}
	return t.text(ctx, b, o, math.MaxInt64)
}

// Format implements fmt.Formatter. The verbs %v and %s print the result of [Tensor.String].
// The verb %+v also prints the elements as [Tensor.Text] does, if the tensor is
// host-accessible and its last write is done. It prints at most 10,000 numbers: of a tensor
// with more than five axes, fewer at the ends of each, or none and "[...]". Format does not
// block.
func (t *Tensor) Format(f fmt.State, verb rune) {
	switch {
	case t == nil:
		_, _ = f.Write([]byte("<nil>"))
	case verb != 'v' && verb != 's':
		fmt.Fprintf(f, "%%!%c(*core.Tensor=%v)", verb, t.String())
	default:
		s := t.String()
		if f.Flag('+') && t.share != nil {
			if b, err := hostBuffer(t, "Format"); err == nil && b.Ready() == nil {
				text, err := t.text(context.Background(), b, TextOptions{}, formatLimit)
				if errors.Is(err, errTooMany) {
					text, err = "[...]", nil
				}
				if err == nil {
					s += "\n" + text
				}
			}
		}
		_, _ = f.Write([]byte(s))
	}
}

// formatLimit is how many numbers Format prints at most: six at each end of five axes are fewer.
const formatLimit = 10000

// errTooMany is the error of text for more numbers than its limit.
var errTooMany = errors.New("too many numbers")

// text is Text without the wait. It prints at most limit numbers, as long as it prints any:
// if there are too many at the ends of the axes, it prints fewer there. If even one at each
// end is too many, it returns errTooMany.
func (t *Tensor) text(ctx context.Context, b *Buffer, o TextOptions, limit int64) (string, error) {
	p := &printer{ctx: ctx, component: t.component()}
	var floating bool
	if p.load, floating = loader(p.component); p.load == nil {
		return "", Errorf(ErrDType, "core", "Text", "elements of %v cannot be printed", t.dtype)
	}
	p.numbers.floating, p.numbers.unsigned = floating, p.code != typecode.Int
	o.setDefaults()
	p.edge = o.EdgeItems

	bits := t.dtype.storageBits(t.Padded())
	for i, n := range t.layout.shape() {
		p.axes = append(p.axes, stepping{n, 0, t.layout.Stride(i) * bits})
	}
	if t.dtype.Lanes > 1 {
		p.axes = append(p.axes, stepping{int64(t.dtype.Lanes), 0, p.count / int64(t.dtype.Lanes) * p.stride})
	}
	if t.NumElements() == 0 {
		return "[]", nil
	}
	p.summarize = p.printed() > o.Threshold
	for p.printed() > limit {
		if p.edge--; p.edge == 0 {
			return "", errTooMany
		}
	}
	if err := p.checkMemory(); err != nil {
		return "", err
	}
	p.base = t.first(b)
	err := guard("Text", func() error { return p.collect(p.axes, 0) }, t, t)
	runtime.KeepAlive(t)
	if err == nil {
		err = p.formatWords(o.Precision)
	}
	if err == nil {
		err = p.lines(p.axes, " ", o.LineWidth)
	}
	if err != nil {
		return "", err
	}
	return p.out.String(), nil
}

func (o *TextOptions) setDefaults() {
	if o.Threshold <= 0 {
		o.Threshold = 1000
	}
	if o.EdgeItems <= 0 {
		o.EdgeItems = 3
	}
	if o.Precision <= 0 {
		o.Precision = 8
	}
	if o.LineWidth <= 0 {
		o.LineWidth = 75
	}
}

// printer prints the elements of a tensor.
type printer struct {
	component
	ctx       context.Context
	base      unsafe.Pointer
	load      func(*numbers, at)
	numbers   numbers
	axes      []stepping
	edge      int64
	summarize bool

	// The elements to print, in row-major order, as numbers and later as words. Imaginary
	// parts are in imags.
	floats, imags []float64
	ints          []int64
	words         []string
	out           strings.Builder
	steps         int // since the context was checked
}

// step returns the context's error. Call it for each element: it seldom looks.
func (p *printer) step() error {
	const interval = 1 << 10 // some 0.1 ms
	if p.steps++; p.steps < interval {
		return nil
	}
	p.steps = 0
	return p.ctx.Err()
}

// printed returns how many numbers are printed, or MaxInt64 for more.
func (p *printer) printed() int64 {
	count := int64(1)
	for _, a := range p.axes {
		n := a.n
		if p.summarize && n/2 >= p.edge {
			n = 2 * p.edge
		}
		if count > math.MaxInt64/n {
			return math.MaxInt64
		}
		count *= n
	}
	return count
}

// checkMemory returns ErrOutOfMemory if the words of all elements that are printed would not fit into memory.
func (p *printer) checkMemory() error {
	const each = 48 // bytes, at least, for a number and its word
	count := p.printed()
	if count > math.MaxInt64/each {
		return Errorf(ErrOutOfMemory, "core", "Text", "too many elements to print: use a smaller Threshold")
	}
	if err := hostmem.Check(count * each); err != nil {
		return Errorf(ErrOutOfMemory, "core", "Text", "%d elements cannot be printed, use a smaller Threshold: %v", count, err)
	}
	return nil
}

// visible calls f for the positions of an axis that are printed.
func (p *printer) visible(n int64, f func(i int64) error) error {
	for i := int64(0); i < n; i++ {
		if p.summarize && i == p.edge && n > 2*p.edge {
			i = n - p.edge
		}
		if err := f(i); err != nil {
			return err
		}
	}
	return nil
}

// collect reads the numbers that are printed.
func (p *printer) collect(axes []stepping, bit int64) error {
	if len(axes) > 0 {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		return p.visible(axes[0].n, func(i int64) error {
			return p.collect(axes[1:], bit+i*axes[0].src)
		})
	}
	if err := p.step(); err != nil {
		return err
	}
	v := &p.numbers
	v.n = 1
	if p.complex {
		v.n = 2
	}
	p.load(v, at{p.base, bit, p.stride})
	if !v.floating {
		p.ints = append(p.ints, v.ints[0])
		return nil
	}
	p.floats = append(p.floats, v.floats[0])
	if p.complex {
		p.imags = append(p.imags, v.floats[1])
	}
	return nil
}

// formatWords formats the numbers as words of equal width.
func (p *printer) formatWords(precision int) (err error) {
	switch {
	case !p.numbers.floating:
		return p.formatInts()
	case len(p.axes) > 0:
		p.words, err = p.formatFloats(p.floats, precision, false)
	case p.complex:
		p.words = []string{formatComplex(p.floats[0], p.imags[0], p.component)}
	default:
		p.words = []string{formatScalar(p.floats[0], p.component, true)}
	}
	if err != nil || !p.complex || len(p.axes) == 0 {
		return err
	}
	imags, err := p.formatFloats(p.imags, precision, true)
	if err != nil {
		return err
	}
	for i, w := range imags {
		if err := p.step(); err != nil {
			return err
		}
		end := len(strings.TrimRight(w, " "))
		p.words[i] += w[:end] + "j" + w[end:]
	}
	return nil
}

// formatInts formats whole numbers and booleans.
func (p *printer) formatInts() error {
	width := 0
	for _, x := range p.ints {
		if err := p.step(); err != nil {
			return err
		}
		var w string
		switch {
		case p.code == typecode.Bool && x != 0 && len(p.axes) > 0:
			w = " True"
		case p.code == typecode.Bool && x != 0:
			w = "True"
		case p.code == typecode.Bool:
			w = "False"
		case p.numbers.unsigned:
			w = strconv.FormatUint(uint64(x), 10)
		default:
			w = strconv.FormatInt(x, 10)
		}
		p.words = append(p.words, w)
		width = max(width, len(w))
	}
	if p.code == typecode.Bool { // they are as wide as they are to be
		return nil
	}
	for i, w := range p.words {
		if err := p.step(); err != nil {
			return err
		}
		p.words[i] = strings.Repeat(" ", width-len(w)) + w
	}
	return nil
}

// word returns the next word.
func (p *printer) word() string {
	w := p.words[0]
	p.words = p.words[1:]
	return w
}

// lines arranges the words as NumPy does, in lines that begin with indent, and writes them
// to out. The first line begins with a bracket instead.
func (p *printer) lines(axes []stepping, indent string, width int) error {
	if len(axes) == 0 {
		p.out.WriteString(p.word())
		return nil
	}
	n := axes[0].n
	last, cut := n-1, p.summarize && n > 2*p.edge
	p.out.WriteByte('[')
	if len(axes) > 1 {
		separator := strings.Repeat("\n", len(axes)-1)
		err := p.visible(n, func(i int64) error {
			if cut && i == n-p.edge {
				p.out.WriteString(indent + "..." + separator)
			}
			if i > 0 {
				p.out.WriteString(indent)
			}
			if err := p.lines(axes[1:], indent+" ", width-1); err != nil {
				return err
			}
			if i < last {
				p.out.WriteString(separator)
			}
			return nil
		})
		p.out.WriteByte(']')
		return err
	}
	line, written := []byte(indent), len(indent) // written is how many bytes of line out has already
	add := func(word string) {
		if len(line)+len(word) > width-1 && len(line) > len(indent) {
			p.out.Write(bytes.TrimRight(line, " ")[written:])
			p.out.WriteByte('\n')
			line, written = append(line[:0], indent...), 0
		}
		line = append(line, word...)
	}
	err := p.visible(n, func(i int64) error {
		if err := p.step(); err != nil {
			return err
		}
		if cut && i == n-p.edge {
			add("...")
			line = append(line, ' ')
		}
		add(p.word())
		if i < last {
			line = append(line, ' ')
		}
		return nil
	})
	p.out.Write(line[written:])
	p.out.WriteByte(']')
	return err
}
