package main

import (
	"fmt"
	"strconv"
	"strings"
)

// table is the report of a file in benchmarks/results as Markdown. It depends on nothing else.
func table(r Report, file string) string {
	var w strings.Builder
	fmt.Fprintf(&w, "# dlx beside other programs\n\n")
	fmt.Fprintf(&w, "`make bench-peers` wrote this page from [results/%s](../results/%[1]s); [README.md](../README.md#peers) says how each figure is made.\n\n", file)
	fmt.Fprintf(&w, "%s, %d CPUs, %s, %s, kernel %s, %s.\n", r.Machine.Processor, r.Machine.CPUs, r.Machine.Platform, r.Machine.System, r.Machine.Kernel, r.Machine.Go)
	for _, s := range r.Sections {
		writeSection(&w, s)
	}
	return w.String()
}

func writeSection(w *strings.Builder, s Section) {
	fmt.Fprintf(w, "\n## %s\n\n", s.Title)
	fmt.Fprintf(w, "`make bench-peers PEER=%s`, %s, dlx %s", s.Peer, s.Date.Format("2006-01-02 15:04 UTC"), shortRevision(s.Revision))
	if s.Rounds > 0 {
		fmt.Fprintf(w, ", load %s before and %s after, %d rounds", number(s.Load[0][0]), number(s.Load[1][0]), s.Rounds)
	}
	fmt.Fprintf(w, ".\n")
	if !s.Quiet {
		fmt.Fprintf(w, "**The machine was not quiet: compare only the ratios of samples that were taken by turns.**\n")
	}
	if s.Short {
		fmt.Fprintf(w, "**A short run, which shows that it works: measure again for figures.**\n")
	}
	fmt.Fprintf(w, "\n| case | size | threads | peer | | dlx | | speed of dlx / peer | notes |\n|---|---:|---:|---|---:|---|---:|---:|---|\n")
	for _, row := range s.Rows {
		peer, dlx, ratio, notes := string(row.Status), "", "", row.Notes
		if row.Status == OK {
			peer = value(row.Value, row.Unit)
		} else {
			notes = strings.TrimSuffix(row.Reason+"; "+notes, "; ")
		}
		if row.DLXValue > 0 {
			dlx = value(row.DLXValue, row.Unit)
		}
		if row.Ratio > 0 {
			ratio = number(row.Ratio)
			if !row.Turns {
				ratio += ", not by turns"
			}
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n",
			cell(row.Case), size(row.Size), threads(row.Threads), cell(row.Peer), peer, cell(row.DLX), dlx, ratio, cell(notes))
	}
	writeSources(w, s.Rows)
}

// writeSources lists the versions, and the commands by version, each once.
func writeSources(w *strings.Builder, rows []Row) {
	seen := map[string]bool{}
	var versions, commands []string
	add := func(list *[]string, text string) {
		if text != "" && !seen[text] {
			seen[text] = true
			*list = append(*list, text)
		}
	}
	for _, row := range rows {
		add(&versions, row.Version)
		add(&commands, row.Command)
	}
	if len(versions) > 0 {
		fmt.Fprintf(w, "\nVersions: %s.\n", strings.Join(versions, "; "))
	}
	if len(commands) > 0 {
		fmt.Fprintf(w, "\n<details><summary>Commands</summary>\n\n```sh\n%s\n```\n\n</details>\n", strings.Join(commands, "\n"))
	}
}

// cell is text that does not end a cell of a table, nor its line.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}

func shortRevision(revision string) string {
	commit, changes, _ := strings.Cut(revision, "+")
	if len(commit) > 12 {
		commit = commit[:12]
	}
	if changes != "" {
		commit += " with changes"
	}
	return commit
}

// number has three digits that count.
func number(x float64) string {
	if x >= 999.5 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

func value(x float64, unit Unit) string {
	return number(x) + " " + strings.Replace(string(unit), "us", "µs", 1)
}

func threads(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// size is a number of bytes in the largest unit that divides it.
func size(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	units := []string{"B", "KiB", "MiB", "GiB"}
	i := 0
	for i < len(units)-1 && bytes%1024 == 0 {
		bytes, i = bytes/1024, i+1
	}
	return fmt.Sprintf("%d %s", bytes, units[i])
}
