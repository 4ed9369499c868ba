// Copyright (c) 2026 gpuops.nvidia contributors
// GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
// SPDX-License-Identifier: GPL-3.0-or-later

// Command verdicts reads lists of fields, as a JSON array of texts, and prints what the exporter's own reader makes of
// each. scripts/field_lists.py builds it in a copy of dcgm-exporter, whose internal packages it uses.
package main

import (
	"encoding/json"
	"io"
	"log/slog"
	"os"

	"github.com/NVIDIA/dcgm-exporter/internal/pkg/appconfig"
	"github.com/NVIDIA/dcgm-exporter/internal/pkg/counters"
	"github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

// The fields for profiling have the identifiers 1000 to 1099. A GPU that has them all skips no line.
const firstProfiling, afterProfiling = 1000, 1100

type verdict struct {
	Collects []counters.Counter `json:"collects"`
	Error    string             `json:"error"`
}

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	var texts []string
	must(json.NewDecoder(os.Stdin).Decode(&texts))
	verdicts := make([]verdict, 0, len(texts))
	for _, text := range texts {
		verdicts = append(verdicts, verdictOf(text))
	}
	must(json.NewEncoder(os.Stdout).Encode(verdicts))
}

func verdictOf(text string) verdict {
	file, err := os.CreateTemp("", "list-*.csv")
	must(err)
	defer os.Remove(file.Name())
	must(os.WriteFile(file.Name(), []byte(text), 0o600))
	records, err := counters.ReadCSVFile(file.Name())
	if err != nil {
		return verdict{Error: err.Error()}
	}
	set, err := counters.ExtractCounters(records, everyField())
	if err != nil {
		return verdict{Error: err.Error()}
	}
	return verdict{Collects: append(set.DCGMCounters, set.ExporterCounters...)}
}

func everyField() *appconfig.Config {
	group := dcgm.MetricGroup{}
	for id := uint(firstProfiling); id < afterProfiling; id++ {
		group.FieldIds = append(group.FieldIds, id)
	}
	return &appconfig.Config{CollectDCP: true, MetricGroups: []dcgm.MetricGroup{group}}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
