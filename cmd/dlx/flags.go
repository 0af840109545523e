package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/core"
)

// choice is a flag that takes one of a few words.
type choice[T ~string] struct {
	value *T // holds the default until Set
	words []T
}

// list gives the words for messages and completion.
func (c choice[T]) list() []string {
	list := make([]string, len(c.words))
	for i, w := range c.words {
		list[i] = string(w)
	}
	return list
}

// String returns the word that was chosen.
func (c choice[T]) String() string {
	if c.value == nil { // the flag package asks a zero value what needs not be shown as a default
		return ""
	}
	return string(*c.value)
}

// Set takes one of the words.
func (c choice[T]) Set(s string) error {
	if !slices.Contains(c.words, T(s)) {
		return fmt.Errorf("must be %s", strings.Join(c.list(), ", "))
	}
	*c.value = T(s)
	return nil
}

// Type is what help calls the argument.
func (c choice[T]) Type() string { return strings.Join(c.list(), "|") }

// complete offers the words.
func (c choice[T]) complete(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.list(), cobra.ShellCompDirectiveNoFileComp
}

// devices is a flag that takes devices in the order of travel: "cpu,cuda:1".
type devices []core.DeviceID

// String returns what Set takes.
func (d *devices) String() string {
	names := make([]string, len(*d))
	for i, id := range *d {
		names[i] = id.String()
	}
	return strings.Join(names, ",")
}

// Set adds the devices of a list, so that the flag may be repeated.
func (d *devices) Set(s string) error {
	for name := range strings.SplitSeq(s, ",") {
		id, err := core.ParseDevice(name)
		if err != nil {
			return err
		}
		*d = append(*d, id)
	}
	return nil
}

// Type is what help calls the argument.
func (d *devices) Type() string { return "device,..." }
