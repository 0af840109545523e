package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// resultName returns the name of a file or a tensor as it is written in a result: the name
// itself, or a quoted Go string if JSON cannot represent it. A name that begins with a quotation
// mark is quoted, too, so that different names stay different.
func resultName(name string) string {
	if !utf8.ValidString(name) || strings.HasPrefix(name, `"`) {
		return strconv.Quote(name)
	}
	return name
}

// shownName returns a result of resultName as it is printed. It also quotes a name that is empty
// or that a terminal cannot show.
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

// realName returns the name that resultName or shownName has quoted. It returns false if shown is
// not quoted.
func realName(shown string) (string, bool) {
	if !strings.HasPrefix(shown, `"`) {
		return "", false
	}
	name, err := strconv.Unquote(shown)
	return name, err == nil
}

// printable quotes text from a file or a driver that could disturb a terminal or a table.
func printable(s string) string {
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// escaping is a writer that escapes the text written to it. Each write must consist of whole
// characters.
type escaping struct {
	io.Writer
	escape func(string) string
}

// Write implements io.Writer.
func (e escaping) Write(p []byte) (int, error) {
	if isPlain(p) {
		return e.Writer.Write(p)
	}
	if _, err := io.WriteString(e.Writer, e.escape(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// isPlain reports whether a text consists of characters of ASCII that need no escape, as nearly all do.
func isPlain(text []byte) bool {
	for _, c := range text {
		if (c < ' ' || c > '~') && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// textEscape escapes characters that could disturb a terminal, except newlines and tabs. It is a
// safety net for text that was not quoted by printable.
func textEscape(s string) string {
	return escape(s, func(r rune) string {
		quoted := strconv.QuoteRune(r)
		return quoted[1 : len(quoted)-1]
	})
}

// jsonEscape escapes the same characters in a JSON document without changing its meaning.
func jsonEscape(s string) string {
	return escape(s, func(r rune) string {
		if high, low := utf16.EncodeRune(r); high != utf8.RuneError {
			return fmt.Sprintf(`\u%04x\u%04x`, high, low)
		}
		return fmt.Sprintf(`\u%04x`, r)
	})
}

// escape replaces characters that are not printable by the result of character, and invalid
// bytes by their values.
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

// validError is an error whose text is valid UTF-8. The log would lose other bytes.
type validError struct{ error }

// Error returns the text of the error. Invalid bytes are replaced by their values.
func (e validError) Error() string {
	text := e.error.Error()
	if utf8.ValidString(text) {
		return text
	}
	return textEscape(text)
}
