package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/remote"
)

// Wrong command lines are found before anything is opened, also where UCX is missing.
func TestUsageErrorsOfPeers(t *testing.T) {
	for args, want := range map[string]string{
		"load ucx://h:1 --to cpu":                                   "nothing says how",
		"load ucx://h:1 --to cpu --cert c --ca a":                   "belong together",
		"load ucx://h:1 --to cpu --insecure --token-file t":         "excludes",
		"load ucx://h:1 --to cpu --insecure --read map":             "--read has no effect for tensors of another machine",
		"load ucx://h:1 --to cpu --insecure --cold":                 "--cold has no effect",
		"load ucx://h --to cpu --insecure":                          "ucx://HOST:PORT",
		"load ucx://:1 --to cpu --insecure":                         "ucx://HOST:PORT",
		"load " + tensors + " --to cpu --insecure":                  "--insecure has no effect for files",
		"bench --peer h:1":                                          "nothing says how",
		"load ucx://h:1/cpu --to cpu --insecure":                    "ucx://HOST:PORT",
		"load ucx://h:1// --to cpu --insecure":                      "ucx://HOST:PORT",
		"bench --peer h --insecure":                                 "HOST:PORT",
		"bench --peer :1 --insecure":                                "HOST:PORT",
		"bench --peer h: --insecure":                                "HOST:PORT",
		"bench --peer ucx://h --insecure":                           "HOST:PORT",
		"bench --peer ucx://ucx://h:1 --insecure":                   "HOST:PORT",
		"bench --peer ucx://h:1/":                                   "nothing says how",
		"bench --peer h:1 --insecure --sizes 1K":                    "--sizes has no effect with --peer",
		"bench --peer h:1 --insecure --poll -1s":                    "negative",
		"bench --poll 1s":                                           "--poll has no effect without --peer",
		"plan --to ucx://h:1/cpu":                                   "nothing says how",
		"plan --to ucx://h:1 --insecure":                            "ucx://HOST:PORT/DEVICE",
		"plan --to ucx://h:1/ --insecure":                           "ucx://HOST:PORT/DEVICE",
		"plan --to ucx://:1/cpu --insecure":                         "ucx://HOST:PORT/DEVICE",
		"plan --to ucx://h/cpu --insecure":                          "ucx://HOST:PORT/DEVICE",
		"plan --to ucx://h:1/gpu --insecure":                        "not a device type",
		"plan --to ucx://h:1/cpu,cpu --insecure":                    "not a device type",
		"plan --to ucx://h:1/cpu --to cpu --insecure":               "excludes other devices",
		"plan --to ucx://h:1/cpu --memory plain --insecure":         "--memory has no effect",
		"plan --to cpu --insecure":                                  "--insecure has no effect",
		"serve " + tensors + " --insecure":                          `"listen" not set`,
		"serve " + tensors + " --listen h:1":                        "nothing says how",
		"serve " + tensors + " --listen h:1 --insecure --only [":    "syntax error in pattern",
		"serve " + tensors + " --listen h:1 --insecure --device c,": "--device",
		"serve --listen h:1 --insecure":                             "requires at least 1 arg",
	} {
		if o := dlx(t, strings.Fields(args)...); o.code != exitUsage || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: exit code %d: %s", args, o.code, o.stderr)
		}
	}
}

// Where UCX is missing, the error says what the program needs.
func TestWithoutUCX(t *testing.T) {
	if err := remote.Available(); err == nil || !errors.Is(err, core.ErrNotSupported) {
		t.Skip("this program can use UCX")
	}
	for _, args := range []string{"load ucx://127.0.0.1:1 --to cpu --insecure", "serve " + tensors + " --listen 127.0.0.1:0 --insecure"} {
		if o := dlx(t, strings.Fields(args)...); o.code != exitFailed || !strings.Contains(o.stderr, remote.Available().Error()) && !strings.Contains(o.stderr, "ucx") {
			t.Errorf("%s: exit code %d: %s", args, o.code, o.stderr)
		}
	}
}

// The address of a peer is the same with and without the scheme, and with a slash at its end.
func TestPeerAddress(t *testing.T) {
	for _, arg := range []string{"h:1", "h:1/", "ucx://h:1", "ucx://h:1/"} {
		if got, err := peerAddress(arg); got != "h:1" || err != nil {
			t.Errorf("%s: %q, %v", arg, got, err)
		}
	}
	if got, err := peerAddress("ucx://[::1]:7470/"); got != "[::1]:7470" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// A secret has 16 to 1024 bytes, beside a newline at its end.
func TestReadToken(t *testing.T) {
	a := &app{log: newLogger(io.Discard, "info", "text")}
	for bytes, want := range map[int]string{0: " has 0 bytes: ", 15: " has 15 bytes: ", 16: "", 1024: "", 1025: " has more than 1024 bytes: ", 5000: " has more than 1024 bytes: "} {
		for _, end := range []string{"", "\n", "\r\n"} {
			path := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(path, []byte(strings.Repeat("x", bytes)+end), 0o600); err != nil {
				t.Fatal(err)
			}
			token, err := a.readToken(path)
			switch {
			case want == "" && (err != nil || len(token) != bytes):
				t.Errorf("%d bytes and %q: %d bytes, %v", bytes, end, len(token), err)
			case want != "" && (!errors.Is(err, core.ErrInvalid) || !strings.Contains(err.Error(), path+want+"a secret has 16 to 1024")):
				t.Errorf("%d bytes and %q: %v", bytes, end, err)
			}
		}
	}
}
