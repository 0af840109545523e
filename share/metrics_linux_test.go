package share

import (
	"errors"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// endsBy returns how many connections have ended for a reason.
func endsBy(reason string) int64 {
	for _, e := range core.ReadMetrics().Share.Ended {
		if e.Reason == reason {
			return e.Count
		}
	}
	return 0
}

// Each end of a connection counts once, by its reason.
func TestMetricsOfEnds(t *testing.T) {
	for reason, end := range map[string]func(x *intruder){
		"peer_ended":     func(x *intruder) { _ = x.socket.Close() },
		"closed_by_peer": func(x *intruder) { x.write(x.message(kindGoodbye, 0, appendGoodbye(nil, reasonClosed, ""))) },
		"rule_broken":    func(x *intruder) { x.write([]byte("garbage")) },
		"limit":          func(x *intruder) { x.write(x.message(kindGoodbye, 0, appendGoodbye(nil, reasonQuota, ""))) },
		"version":        func(x *intruder) { x.write(x.message(kindGoodbye, 0, appendGoodbye(nil, reasonVersion, ""))) },
	} {
		before, open := endsBy(reason), core.ReadMetrics().Share.OpenConnections()
		mine, theirs := pair(t)
		c := made(t, mine, of())
		if got := core.ReadMetrics().Share.OpenConnections() - open; got != 1 {
			t.Errorf("%s: %d connections are open", reason, got)
		}
		x := &intruder{t: t, socket: theirs}
		x.hello()
		end(x)
		<-c.ended
		if got := endsBy(reason) - before; got != 1 {
			t.Errorf("%s: counted %d times; %v", reason, got, c.Err())
		}
		if got := core.ReadMetrics().Share.OpenConnections() - open; got != 0 {
			t.Errorf("%s: %d connections are open afterwards", reason, got)
		}
	}
	if got := endName(&ConnError{Err: lost(errors.New("a strange error"))}); got != "other" {
		t.Errorf("a strange error is %q", got)
	}
}
