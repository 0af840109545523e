package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/remote"
)

// peerScheme begins the address of a process that dlx serve is, as in "ucx://10.0.0.7:7470".
const peerScheme = "ucx://"

// isPeer reports whether an argument names another process and not a file.
func isPeer(arg string) bool { return strings.HasPrefix(arg, peerScheme) }

// peerAddress returns the TCP address in an argument for which isPeer is true, or in one without the scheme. A slash may follow it.
func peerAddress(arg string) (string, error) {
	address := strings.TrimSuffix(strings.TrimPrefix(arg, peerScheme), "/")
	if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" || strings.Contains(address, "/") {
		return "", fmt.Errorf("invalid argument %q: must be HOST:PORT or ucx://HOST:PORT, with the address at which dlx serve listens", arg)
	}
	return address, nil
}

// peerFlags are the flags by which two processes authenticate each other.
type peerFlags struct {
	token, cert, key, ca string
	insecure             bool
	poll                 time.Duration // of commands that have the flag
}

// names are the flags that add adds.
func (f *peerFlags) names() []string {
	return []string{"token-file", "cert", "key", "ca", "insecure"}
}

func (f *peerFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var((*filled)(&f.token), "token-file", "a `file` with the secret that both sides know, of at least 16 bytes")
	flags.Var((*filled)(&f.cert), "cert", "a PEM `file` with the certificate of this side")
	flags.Var((*filled)(&f.key), "key", "a PEM `file` with the key of the certificate")
	flags.Var((*filled)(&f.ca), "ca", "a PEM `file` with the authorities that the certificate of the other side comes from")
	flags.BoolVar(&f.insecure, "insecure", false, "neither encrypt nor authenticate; on the loopback interface only")
}

// addPoll adds --poll, which names does not have.
func (f *peerFlags) addPoll(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.poll, "poll", 0, "look for messages again and again for this `time` before the system wakes this process: faster, and takes a processor")
}

// peerHelp describes the flags of peerFlags.
const peerHelp = `Both sides prove who they are: by a secret (--token-file), such as one that
"head -c 32 /dev/urandom | base64 > token" has made, by certificates (--cert, --key and --ca), or by
both. The connection over which they agree is encrypted. The elements of tensors are not: use a
network that you trust. --insecure needs no secret, and works between processes of one machine.`

// check returns an error if the flags are wrong.
func (f *peerFlags) check() error {
	certs := 0
	for _, name := range []string{f.cert, f.key, f.ca} {
		if name != "" {
			certs++
		}
	}
	switch {
	case certs != 0 && certs != 3:
		return errors.New("--cert, --key and --ca belong together: give all three or none")
	case f.insecure && (certs > 0 || f.token != ""):
		return errors.New("--insecure excludes --token-file and --cert: choose one")
	case !f.insecure && certs == 0 && f.token == "":
		return errors.New("nothing says how the two sides authenticate each other: give --token-file, or --cert, --key and --ca, or on one machine --insecure")
	case f.poll < 0:
		return fmt.Errorf("invalid argument %v for --poll: must not be negative", f.poll)
	}
	return nil
}

// options reads the files.
func (f *peerFlags) options(a *app) (o remote.Options, err error) {
	o.Insecure, o.Poll = f.insecure, f.poll
	if f.token != "" {
		if o.Token, err = a.readToken(f.token); err != nil {
			return o, err
		}
	}
	if f.cert == "" {
		return o, nil
	}
	pair, err := tls.LoadX509KeyPair(f.cert, f.key)
	if err != nil {
		return o, core.Errorf(core.ErrInvalid, "dlx", "certificate", "--cert %s and --key %s: %v", f.cert, f.key, err)
	}
	pem, err := os.ReadFile(f.ca)
	if err != nil {
		return o, err
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(pem) {
		return o, core.Errorf(core.ErrInvalid, "dlx", "certificate", "--ca %s has no certificate in PEM form", f.ca)
	}
	o.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: authorities, ClientCAs: authorities, MinVersion: tls.VersionTLS13}
	return o, nil
}

// dial connects to dlx serve. The caller closes the connection.
func dial(ctx context.Context, address string, options remote.Options) (*remote.Conn, error) {
	c, err := remote.Dial(ctx, address, options)
	switch {
	case !errors.Is(err, remote.ErrInsecure):
		return c, err
	case options.Insecure:
		return nil, fmt.Errorf("%w: leave out --insecure, and give the --token-file or the --cert, --key and --ca that fit to those of the other side", err)
	}
	return nil, fmt.Errorf("%w: give --insecure on both sides, or start the other one with a --token-file or --cert, --key and --ca", err)
}

// dialSource connects to dlx serve, and returns a source of its tensors. The caller closes the connection.
func (a *app) dialSource(ctx context.Context, arg string, f *peerFlags) (*remote.Source, *remote.Conn, error) {
	address, err := peerAddress(arg)
	if err != nil {
		return nil, nil, err
	}
	options, err := f.options(a)
	if err != nil {
		return nil, nil, err
	}
	c, err := dial(ctx, address, options)
	if err != nil {
		return nil, nil, err
	}
	list, err := c.List(ctx)
	if err == nil && len(list) == 0 {
		err = core.Errorf(core.ErrInvalid, "dlx", "load", "the process at %s offers no tensors by name", arg)
	}
	var s *remote.Source
	if err == nil {
		s, err = remote.NewSource(c, list)
	}
	if err != nil {
		_ = c.Close()
		return nil, nil, err
	}
	return s, c, nil
}

// readToken reads a secret, without a newline at its end. It warns if other users can read the file.
func (a *app) readToken(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o044 != 0 {
		a.log.Warn().Str("file", path).Msg("other users can read the secret: change that by chmod 600")
	}
	const most = 1024 // of remote.Options.Token
	token, err := io.ReadAll(io.LimitReader(file, most+3))
	if err != nil {
		return nil, err
	}
	token = bytes.TrimSuffix(bytes.TrimSuffix(token, []byte("\n")), []byte("\r"))
	switch {
	case len(token) < 16:
		return nil, core.Errorf(core.ErrInvalid, "dlx", "token", "%s has %d bytes: a secret has 16 to %d", path, len(token), most)
	case len(token) > most: // it was not read to its end
		return nil, core.Errorf(core.ErrInvalid, "dlx", "token", "%s has more than %d bytes: a secret has 16 to %[2]d", path, most)
	}
	return token, nil
}
