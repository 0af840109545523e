package core

import (
	"math"
	"strconv"
	"strings"

	"github.com/dlx-go/dlx/core/float"
	"github.com/dlx-go/dlx/core/typecode"
)

// decimal is a finite number in decimal digits: d1.d2d3... times ten to the power of exp.
type decimal struct {
	negative bool
	digits   string // without zeros at the end; "0" for zero
	exp      int    // power of ten of the first digit: 0 for numbers from 1 to 9.99
}

// formatFloats formats numbers of p's type with equal width. If plus is set, positive numbers
// have a sign, too. It returns the context's error if that ends.
func (p *printer) formatFloats(values []float64, precision int, plus bool) ([]string, error) {
	c := p.component
	var low, high float64
	finite, negativeInf := 0, false
	for _, x := range values {
		if a := math.Abs(x); x-x != 0 {
			negativeInf = negativeInf || x < 0
			continue
		} else if a != 0 {
			if low == 0 || a < low {
				low = a
			}
			high = max(high, a)
		}
		finite++
	}
	// NumPy rounds 0.0001 to the type, too, and so prints the float32 that is nearest to it without an exponent.
	scientific := low != 0 && (high >= cutoff(c) || low < ratio(0.0001, 1, c) || ratio(high, low, c) > 1000)
	type parts struct{ whole, fraction, exp string }
	split := make([]parts, len(values))
	var left, right, expSize int
	for i, x := range values {
		if err := p.step(); err != nil {
			return nil, err
		}
		if x-x != 0 {
			continue
		}
		d, p := shortest(x, c), parts{}
		if scientific {
			d = d.round(x, 'e', precision)
			p = parts{d.digits[:1], d.digits[1:], strconv.Itoa(max(d.exp, -d.exp))}
			if len(p.exp) < 2 {
				p.exp = "0" + p.exp
			}
			expSize = max(expSize, len(p.exp))
		} else {
			p.whole, p.fraction = d.round(x, 'f', precision).positional()
		}
		switch {
		case d.negative:
			p.whole = "-" + p.whole
		case plus:
			p.whole = "+" + p.whole
		}
		if scientific && d.exp < 0 {
			p.exp = "-" + p.exp
		} else if scientific {
			p.exp = "+" + p.exp
		}
		split[i] = p
		left, right = max(left, len(p.whole)), max(right, len(p.fraction))
	}
	behind := right // characters after the decimal point
	if scientific {
		behind = expSize + 2 + right
	}
	if finite < len(values) {
		sign := 0
		if plus || negativeInf {
			sign = 1
		}
		left = max(left, 3-(behind+1), 3+sign-(behind+1))
	}
	words := make([]string, len(values))
	for i, x := range values {
		if err := p.step(); err != nil {
			return nil, err
		}
		p := split[i]
		var w string
		switch {
		case x-x != 0:
			w = nonFinite(x, plus)
			w = strings.Repeat(" ", max(0, left+behind+1-len(w))) + w
		case scientific:
			// All numbers have the same number of digits. Further digits are exact, not 0.
			exact, exp, _ := strings.Cut(strconv.FormatFloat(math.Abs(x), 'e', right, 64), "e")
			if right == 0 {
				exact += "."
			}
			w = strings.TrimRight(p.whole, "0123456789") + exact + "e" + exp[:1] + strings.Repeat("0", max(0, expSize+1-len(exp))) + exp[1:]
			w = strings.Repeat(" ", left-len(p.whole)) + w
		default:
			w = strings.Repeat(" ", left-len(p.whole)) + p.whole + "." + p.fraction + strings.Repeat(" ", right-len(p.fraction))
		}
		words[i] = w
	}
	return words, nil
}

// ratio divides numbers of type c and rounds the result to that type.
func ratio(a, b float64, c component) float64 {
	switch {
	case c.bits == 64:
		return a / b
	case c.bits == 16 && c.code == typecode.Float:
		return float64(float.NewFloat16(float32(a / b)).Float32())
	default:
		return float64(float32(a) / float32(b))
	}
}

// formatScalar formats the number of a tensor without axes, with as many digits as it
// needs. If point is set, a whole number ends in ".0".
func formatScalar(x float64, c component, point bool) string {
	if x-x != 0 {
		return nonFinite(x, false)
	}
	d, sign := shortest(x, c), ""
	if d.negative {
		sign = "-"
	}
	limit := 1e16
	if c.bits < 64 {
		limit = cutoff(c)
	}
	if a := math.Abs(x); a != 0 && (a < 1e-4 || a >= limit) {
		mantissa := d.digits[:1]
		if len(d.digits) > 1 {
			mantissa += "." + d.digits[1:]
		}
		exp := strconv.Itoa(max(d.exp, -d.exp))
		if len(exp) < 2 {
			exp = "0" + exp
		}
		if d.exp < 0 {
			return sign + mantissa + "e-" + exp
		}
		return sign + mantissa + "e+" + exp
	}
	whole, fraction := d.positional()
	switch {
	case fraction != "":
		return sign + whole + "." + fraction
	case point:
		return sign + whole + ".0"
	default:
		return sign + whole
	}
}

// formatComplex formats the complex number of a tensor without axes.
func formatComplex(re, im float64, c component) string {
	i := formatScalar(im, c, false) + "j"
	if re == 0 && !math.Signbit(re) {
		return i
	}
	if i[0] != '-' {
		i = "+" + i
	}
	return "(" + formatScalar(re, c, false) + i + ")"
}

// cutoff is the number from which on numbers are printed with an exponent. It depends on how
// many decimal digits of the type are exact.
func cutoff(c component) float64 {
	switch c.bits {
	case 64:
		return 1e8
	case 32:
		return 1e6
	default:
		return 1e3
	}
}

func nonFinite(x float64, plus bool) string {
	w := "inf"
	if x != x {
		w = "nan"
	}
	switch {
	case x < 0:
		return "-" + w
	case plus:
		return "+" + w
	}
	return w
}

// shortest returns the fewest digits that identify x among the numbers of type c. Types that
// NumPy does not have are treated as float32.
func shortest(x float64, c component) decimal {
	if c.bits >= 32 || c.code != typecode.Float {
		return decimalOf(strconv.FormatFloat(x, 'e', -1, int(max(c.bits, 32))))
	}
	for digits := 0; ; digits++ {
		s := strconv.FormatFloat(x, 'e', digits, 64)
		if f, err := strconv.ParseFloat(s, 32); err == nil && float.NewFloat16(float32(f)).Float32() == float32(x) || digits == 17 {
			return decimalOf(s)
		}
	}
}

// decimalOf parses a result of FormatFloat with format 'e'.
func decimalOf(s string) decimal {
	var d decimal
	s, d.negative = strings.TrimPrefix(s, "-"), s[0] == '-'
	mantissa, exp, _ := strings.Cut(s, "e")
	d.exp, _ = strconv.Atoi(exp)
	d.digits = strings.TrimRight(strings.Replace(mantissa, ".", "", 1), "0")
	if d.digits == "" {
		d.digits, d.exp = "0", 0
	}
	return d
}

// round returns x, whose digits are d, with at most precision digits after the decimal
// point. It returns d if d has no more.
func (d decimal) round(x float64, format byte, precision int) decimal {
	behind := len(d.digits) - 1
	if format == 'f' {
		behind -= d.exp
	}
	if behind <= precision {
		return d
	}
	if format == 'e' {
		return decimalOf(strconv.FormatFloat(x, 'e', precision, 64))
	}
	r := decimal{negative: d.negative}
	whole, fraction, _ := strings.Cut(strings.TrimPrefix(strconv.FormatFloat(x, 'f', precision, 64), "-"), ".")
	all := whole + fraction
	first := strings.IndexFunc(all, func(c rune) bool { return c != '0' })
	if first < 0 {
		r.digits = "0"
		return r
	}
	r.digits, r.exp = strings.TrimRight(all[first:], "0"), len(whole)-1-first
	return r
}

// positional returns the digits before and after the decimal point.
func (d decimal) positional() (whole, fraction string) {
	switch n := d.exp + 1; {
	case n <= 0:
		return "0", strings.Repeat("0", -n) + strings.TrimRight(d.digits, "0")
	case n >= len(d.digits):
		return d.digits + strings.Repeat("0", n-len(d.digits)), ""
	default:
		return d.digits[:n], d.digits[n:]
	}
}
