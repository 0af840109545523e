package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/tensorfile"
)

// completeFlag sets the completion of a flag's argument.
func completeFlag(cmd *cobra.Command, flag string, f cobra.CompletionFunc) {
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc(flag, f)) // fails only for a flag that does not exist
}

// fileExtensions are the extensions of the supported formats.
var fileExtensions = []cobra.Completion{"npy", "npz", "safetensors"}

// completeFile completes the one argument FILE.
func completeFile(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return completeFiles(cmd, args, begun)
}

// completeFiles completes each of several arguments FILE, which may be an index of several files.
func completeFiles(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return append([]cobra.Completion{"json"}, fileExtensions...), cobra.ShellCompDirectiveFilterFileExt
}

// completeDevices completes the last entry of a list of devices.
func (a *app) completeDevices(cmd *cobra.Command, _ []string, list string) ([]cobra.Completion, cobra.ShellCompDirective) {
	done := list[:strings.LastIndexByte(list, ',')+1]
	var offers []cobra.Completion
	for _, b := range a.registry.Backends() {
		found, err := b.Devices(cmd.Context())
		if err != nil {
			continue // the driver is missing
		}
		for _, p := range found {
			offers = append(offers, cobra.CompletionWithDesc(done+p.ID.String(), printable(p.Name)))
		}
	}
	return offers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeTensors completes the name of a tensor in the file that is the first argument.
func completeTensors(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	f, err := tensorfile.Open(args[0], tensorfile.OpenOptions{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer f.Close()
	var offers []cobra.Completion
	for _, t := range f.Tensors() {
		offers = append(offers, cobra.CompletionWithDesc(shownName(resultName(t.Name)), t.DType.String()))
	}
	return offers, cobra.ShellCompDirectiveNoFileComp
}
