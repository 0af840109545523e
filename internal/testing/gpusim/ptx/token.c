// token.c cuts a text into words, numbers and marks.
#include "code.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ptx_fail(ptx_reader *r, const char *format, ...) {
    if (r->room > 0) {
        int n = snprintf(r->log, r->room, "line %d: ", r->token.line);
        va_list list;
        va_start(list, format);
        if (n >= 0 && (size_t)n < r->room) vsnprintf(r->log + n, r->room - (size_t)n, format, list);
        va_end(list);
    }
    longjmp(r->end, 1);
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool in_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) ||
           (c != '\0' && strchr("_$%.", c) != NULL);
}

static void skip_space(ptx_reader *r) {
    for (;; r->at++) {
        if (r->at[0] == '/' && r->at[1] == '/') {
            r->at += strcspn(r->at, "\n");
        } else if (r->at[0] == '/' && r->at[1] == '*') {
            const char *end = strstr(r->at + 2, "*/");
            if (end == NULL) ptx_fail(r, "a comment has no end");
            for (; r->at < end + 1; r->at++) r->line += *r->at == '\n';
            continue;
        }
        if (*r->at == '\n')
            r->line++;
        else if (*r->at != ' ' && *r->at != '\t' && *r->at != '\r')
            return;
    }
}

// number reads an integer, or the bits of a floating-point number: 0f and 8 hexadecimal digits, 0d and 16.
static void number(ptx_reader *r, ptx_token *t) {
    const char *digits = r->at;
    int base = 10;
    if (digits[0] == '0' && digits[1] != '\0' && strchr("xXfFdDbB", digits[1]) != NULL) {
        base = digits[1] == 'b' || digits[1] == 'B' ? 2 : 16;
        digits += 2;
    } else if (digits[0] == '0') {
        base = 8;
    }
    for (r->at = digits; in_word(*r->at) && *r->at != 'U' && *r->at != '.'; r->at++) {
        char c = *r->at | 32;
        int digit = is_digit(*r->at) ? *r->at - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
        if (digit >= base) {
            ptx_fail(r, "%.*s is no number that is covered", (int)strcspn(t->word.at, " \t\r\n,;]"),
                     t->word.at);
        }
        if (t->number > (UINT64_MAX - (uint64_t)digit) / (uint64_t)base)
            ptx_fail(r, "a number is beyond 64 bits");
        t->number = t->number * (uint64_t)base + (uint64_t)digit;
    }
    if (r->at == digits) ptx_fail(r, "a number has no digits");
    if (*r->at == 'U') r->at++;
}

void ptx_next(ptx_reader *r) {
    skip_space(r);
    ptx_token *t = &r->token;
    *t = (ptx_token){.word.at = r->at, .line = r->line};
    if (*r->at == '\0') {
        t->kind = TOKEN_END;
    } else if (is_digit(*r->at)) {
        t->kind = TOKEN_NUMBER;
        number(r, t);
    } else if (in_word(*r->at)) {
        t->kind = TOKEN_WORD;
        while (in_word(*r->at)) r->at++;
    } else {
        t->kind = TOKEN_MARK;
        r->at++;
    }
    t->word.size = (size_t)(r->at - t->word.at);
}

bool ptx_same(ptx_word word, const char *text) {
    return strlen(text) == word.size && memcmp(word.at, text, word.size) == 0;
}

bool ptx_accept(ptx_reader *r, const char *text) {
    if (r->token.kind == TOKEN_END || !ptx_same(r->token.word, text)) return false;
    ptx_next(r);
    return true;
}

void ptx_expect(ptx_reader *r, const char *text) {
    if (ptx_accept(r, text)) return;
    if (r->token.kind == TOKEN_END) ptx_fail(r, "the text ends where %s should be", text);
    ptx_fail(r, "%.*s stands where %s should be", (int)r->token.word.size, r->token.word.at, text);
}

ptx_word ptx_take_word(ptx_reader *r) {
    ptx_word word = r->token.word;
    if (r->token.kind != TOKEN_WORD)
        ptx_fail(r, "a name is missing before %.*s", (int)word.size, word.at);
    ptx_next(r);
    return word;
}

uint64_t ptx_take_number(ptx_reader *r) {
    bool negative = ptx_accept(r, "-");
    ptx_word word = r->token.word;
    if (r->token.kind != TOKEN_NUMBER)
        ptx_fail(r, "a number is missing before %.*s", (int)word.size, word.at);
    uint64_t n = r->token.number;
    ptx_next(r);
    return negative ? -n : n;
}
