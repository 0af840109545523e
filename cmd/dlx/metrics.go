package main

import (
	"context"
	"errors"
	"expvar"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/metrics"
)

// metricsFlag adds a flag whose value serveMetrics takes.
func metricsFlag(flags *pflag.FlagSet, address *string) {
	flags.StringVar(address, "metrics", "", metricsHelp)
}

const metricsHelp = "show metrics while the command runs, at http://127.0.0.1:PORT/metrics for an `address` \":PORT\"; " +
	"other computers can connect only if the address names an IP address and a port, such as 192.0.2.1:9100"

// metricsVariable is the name of the metrics in /debug/vars.
const metricsVariable = "dlx"

// serveMetrics serves the metrics of this process by HTTP: /metrics for Prometheus, /debug/vars of package expvar, and
// a page with links. read returns the metrics, such as [core.ReadMetrics]. The server ends when ctx ends, or by a call of stop, which waits for it. stop may be called
// several times. url is that of the page. registry names the backends on the page; it may be nil.
//
// An address without a host, such as ":9100" or "9100", is 127.0.0.1. Port 0 is any free port. A name, such as
// "localhost:9100", must be one of loopback addresses. Only an IP address opens the server to other computers:
// everybody who can reach it may read the metrics and the command line.
func serveMetrics(ctx context.Context, address string, registry *core.Registry, read func() core.Metrics) (stop func() error, url string, err error) {
	at, err := metricsAddress(ctx, address, net.DefaultResolver.LookupNetIP)
	if err != nil {
		return nil, "", err
	}
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", at.String())
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, "", core.Errorf(core.ErrExists, "metrics", "listen", "another program uses port %d of %v: name another port, or 0 for any", at.Port(), at.Addr())
	case err != nil:
		return nil, "", fmt.Errorf("metrics: cannot listen on %v: %w", at, err)
	}
	publishMetrics()
	published.Store(&read)
	server := &http.Server{Handler: metricsPages(registry, read), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }() // which owns the listener, and ends when the server is closed
	end := sync.OnceValue(func() error {
		err := server.Close()
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	})
	forget := context.AfterFunc(ctx, func() { _ = end() }) // stop returns its error, too
	return func() error {
		forget()
		return end()
	}, "http://" + listener.Addr().String() + "/", nil
}

// metricsAddress parses the address that metrics are to be served at. lookup finds the IP addresses of a name.
func metricsAddress(ctx context.Context, address string, lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)) (netip.AddrPort, error) {
	invalid := func(format string, args ...any) (netip.AddrPort, error) {
		return netip.AddrPort{}, core.Errorf(core.ErrInvalid, "metrics", "", "address %q: %s; write :PORT, such as :9100", address, fmt.Sprintf(format, args...))
	}
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return invalid("it is not a host and a port")
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return invalid("the port must be a number from 0 to 65535")
	}
	if host == "" {
		host = "127.0.0.1"
	}
	if ip, err := netip.ParseAddr(host); err == nil { // named in full: also one that others can reach
		return netip.AddrPortFrom(ip, uint16(port)), nil
	}
	found, err := lookup(ctx, "ip", host)
	if err != nil || len(found) == 0 {
		return invalid("no computer of the name %q is known", host)
	}
	for _, ip := range found {
		if ip = ip.Unmap(); !ip.IsLoopback() {
			return invalid("%q is %v, which other computers can reach; to let them read the metrics, name that IP address", host, ip)
		}
	}
	return netip.AddrPortFrom(found[0].Unmap(), uint16(port)), nil
}

// published returns the metrics that /debug/vars shows: those of the newest server.
var published atomic.Pointer[func() core.Metrics]

// publishMetrics adds the metrics to the variables of this process, once.
var publishMetrics = sync.OnceFunc(func() {
	expvar.Publish(metricsVariable, expvar.Func(func() any { return (*published.Load())() }))
})

// metricsPages serves the metrics and a page that leads to them.
func metricsPages(registry *core.Registry, read func() core.Metrics) http.Handler {
	var backends []string
	if registry != nil {
		for _, b := range registry.Backends() {
			backends = append(backends, b.Name())
		}
	}
	page := fmt.Sprintf(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<title>dlx</title>
<h1>dlx</h1>
<p>Backends: %s</p>
<ul>
<li><a href="/metrics">/metrics</a>: for Prometheus</li>
<li><a href="/debug/vars">/debug/vars</a>: as JSON, with the memory statistics of Go</li>
</ul>
</html>
`, strings.Join(backends, ", "))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics.HandlerOf(read))
	mux.Handle("GET /debug/vars", expvar.Handler())
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(page)) // an error means that the reader has gone
	})
	return mux
}
