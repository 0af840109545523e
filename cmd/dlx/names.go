package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// resultName is a name of a file or a tensor as a result has it, in JSON: the name
// itself or, where JSON cannot carry that, a quoted Go string. A name that begins with
// a quotation mark is quoted too, so that no two names become one.
func resultName(name string) string {
	if !utf8.ValidString(name) || strings.HasPrefix(name, `"`) {
		return strconv.Quote(name)
	}
	return name
}

// shownName is what resultName returned as it is printed: quoted also where a terminal
// or a table would not show it as it is.
func shownName(result string) string {
	switch {
	case strings.HasPrefix(result, `"`):
		return result
	case result == "":
		return strconv.Quote(result)
	default:
		return printable(result)
	}
}

// realName undoes shownName and resultName, for a name that they have quoted.
func realName(shown string) (string, bool) {
	if !strings.HasPrefix(shown, `"`) {
		return "", false
	}
	name, err := strconv.Unquote(shown)
	return name, err == nil
}

// printable makes text from a file or driver harmless to a terminal and a table.
func printable(s string) string {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// escaping passes on what is written to it, escaped. Each write has whole characters.
type escaping struct {
	io.Writer
	escape func(string) string
}

// Write implements io.Writer.
func (e escaping) Write(p []byte) (int, error) {
	if _, err := io.WriteString(e.Writer, e.escape(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// textEscape escapes what a terminal must not get, whoever forgot to quote it, and
// leaves lines and columns.
func textEscape(s string) string {
	return escape(s, func(r rune) string {
		quoted := strconv.QuoteRune(r)
		return quoted[1 : len(quoted)-1]
	})
}

// jsonEscape does that to a document in JSON, which means the same afterwards.
func jsonEscape(s string) string {
	return escape(s, func(r rune) string {
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			return fmt.Sprintf(`\u%04x\u%04x`, high, low)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
}

// escape replaces the characters that are not printable, and bytes that are no
// characters by their numbers.
func escape(s string, character func(rune) string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == '\n' || r == '\t' || strconv.IsPrint(r) && r != utf8.RuneError:
			b.WriteRune(r)
		case r != utf8.RuneError:
			b.WriteString(character(r))
		case strings.HasPrefix(s[i:], string(utf8.RuneError)):
			b.WriteRune(r)
		default:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		}
	}
	return b.String()
}

// validError is an error whose text is UTF-8: the log would lose all else.
type validError struct{ error }

// Error gives the text, with bytes that are no characters as numbers.
func (e validError) Error() string {
	text := e.error.Error()
	if utf8.ValidString(text) {
		return text
	}
	return textEscape(text)
}
