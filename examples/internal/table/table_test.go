// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package table_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spokewire/sdk-go/examples/internal/table"
)

func TestWrite(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	shop := []any{"shop", 2, "x=y", now.Add(-90 * time.Second), "two\nlines \x1b[31m"}
	all := table.Table{Columns: []string{"NAME", "CLUSTERS", "+LABELS", "AGE", "REASON"}, Rows: [][]any{
		shop, {"a-longer-name", 10, "", time.Time{}, ""},
	}}
	for _, tt := range []struct {
		wide bool
		want string
	}{
		{false, "NAME            CLUSTERS   AGE         REASON\n" +
			"shop            2          90s         two lines \ufffd[31m\n" +
			"a-longer-name   10         <unknown>\n"},
		{true, "NAME            CLUSTERS   LABELS   AGE         REASON\n" +
			"shop            2          x=y      90s         two lines \ufffd[31m\n" +
			"a-longer-name   10         <none>   <unknown>\n"},
	} {
		var out strings.Builder
		if err := all.Write(&out, tt.wide, now); err != nil || out.String() != tt.want {
			t.Errorf("wide %v: %v\n%q\nwant\n%q", tt.wide, err, out.String(), tt.want)
		}
	}
	earlier := table.Table{Columns: all.Columns, Rows: [][]any{shop}}
	if got := all.Since(earlier); len(got.Rows) != 1 || got.Rows[0][0] != "a-longer-name" || len(all.Rows) != 2 {
		t.Errorf("since: %v", got.Rows)
	}
}
