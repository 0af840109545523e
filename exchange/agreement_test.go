package exchange_test

import (
	"fmt"
	"testing"

	"github.com/dlx-go/dlx/exchange"
)

// A plan goes the way that the move goes: what devices know of their memory, they say before anything is tried.
func TestAPlanIsWhatTheMoveDoes(t *testing.T) {
	devices := openAll(t, 1)
	for _, from := range devices {
		for _, s := range sources(from) {
			for _, d := range devices {
				if card(from) && card(d) && from.ID().Type != d.ID().Type {
					continue // only the driver can tell that the memory is another vendor's
				}
				t.Run(fmt.Sprintf("%s/%v to %v", s.name, from.ID(), d.ID()), func(t *testing.T) {
					src := numbered(t, from, s.alloc, 1<<10)
					defer src.Close()
					plan, err := exchange.Plan(src, d, exchange.Options{})
					if err != nil {
						t.Fatal(err)
					}
					y, report := to(t, src, d, exchange.Options{})
					_ = y.Close()
					if plan.Mechanism != report.Mechanism {
						t.Errorf("planned: %v\nmoved: %v", plan, report)
					}
				})
			}
		}
	}
}
