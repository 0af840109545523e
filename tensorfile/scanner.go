package tensorfile

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/dlx-go/dlx/core"
)

// scanner reads the text of a header token by token. Both kinds of headers, a Python
// dictionary and a JSON object, have a fixed structure, so that recursion is bounded.
type scanner struct {
	text  []byte
	pos   int
	blank string // the characters that may separate tokens
	at    fault
}

// skip skips characters that separate tokens.
func (s *scanner) skip() {
	for s.pos < len(s.text) && s.text[s.pos] <= ' ' && strings.IndexByte(s.blank, s.text[s.pos]) >= 0 {
		s.pos++
	}
}

// peek returns the first byte of the next token, 0 at the end.
func (s *scanner) peek() byte {
	s.skip()
	if s.pos == len(s.text) {
		return 0
	}
	return s.text[s.pos]
}

// accept skips the next token if it is c, and reports whether it was.
func (s *scanner) accept(c byte) bool {
	ok := s.peek() == c
	if ok && s.pos < len(s.text) {
		s.pos++
		return true
	}
	return false
}

// word skips the next token if it is w, and reports whether it was.
func (s *scanner) word(w string) bool {
	s.skip()
	ok := bytes.HasPrefix(s.text[s.pos:], []byte(w))
	if ok {
		s.pos += len(w)
	}
	return ok
}

// expected returns the error for a position where what was expected and is not there.
func (s *scanner) expected(what, field string) error {
	s.skip()
	found := "the end"
	if rest := s.text[s.pos:]; len(rest) > 0 {
		found = quote(string(rest[:min(len(rest), 8)]))
	}
	return s.at.errorf(core.ErrInvalid, "%s: byte %d of the header: expected %s, found %s", field, s.pos, what, found)
}

// list reads items between brackets, separated by commas. It calls item to read each of them.
// If trailing is set, a comma may precede the closing bracket. list returns the number of
// commas.
func (s *scanner) list(brackets string, trailing bool, field string, item func(i int) error) (commas int, err error) {
	if !s.accept(brackets[0]) {
		return 0, s.expected("'"+brackets[:1]+"'", field)
	}
	if s.accept(brackets[1]) {
		return 0, nil
	}
	for i := 0; ; i++ {
		if err := item(i); err != nil {
			return 0, err
		}
		if s.accept(',') {
			commas++
			if !trailing || s.peek() != brackets[1] {
				continue
			}
		}
		if !s.accept(brackets[1]) {
			return 0, s.expected("',' or '"+brackets[1:]+"'", field)
		}
		return commas, nil
	}
}

// extents appends a list of at most [core.MaxRank] numbers, which must not be negative, to values. A suffix may follow
// each number.
func (s *scanner) extents(values []int64, brackets string, trailing bool, field, suffix string) (_ []int64, commas int, err error) {
	commas, err = s.list(brackets, trailing, field, func(i int) error {
		if i == core.MaxRank {
			return s.at.errorf(core.ErrLayout, "%s has more than %d numbers", field, core.MaxRank)
		}
		v, err := s.number(field, i)
		if suffix != "" {
			s.word(suffix)
		}
		values = append(values, v)
		return err
	})
	return values, commas, err
}

// number reads a decimal number from 0 to the largest int64. It is item i of a list, which a field holds.
func (s *scanner) number(list string, i int) (int64, error) {
	field := func() string { return list + "[" + strconv.Itoa(i) + "]" }
	negative := s.accept('-')
	s.skip()
	digits := s.text[s.pos:]
	n, v, large := 0, int64(0), false
	for ; n < len(digits) && '0' <= digits[n] && digits[n] <= '9'; n++ {
		d := int64(digits[n] - '0')
		large = large || v > (math.MaxInt64-d)/10
		v = v*10 + d
	}
	digits = digits[:n]
	if n == 0 || n > 1 && digits[0] == '0' {
		return 0, s.expected("a whole number", field())
	}
	s.pos += n
	switch {
	case negative:
		return 0, s.at.errorf(core.ErrLayout, "%s is negative", field())
	case large:
		return 0, s.at.errorf(core.ErrLayout, "%s is %s, more than an int64 holds", field(), quote(string(digits)))
	}
	return v, nil
}
