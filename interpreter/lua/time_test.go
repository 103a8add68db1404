// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package lua_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/spokewire/sdk-go/interpreter/lua"
)

func TestScriptsReadTheClockOfOptions(t *testing.T) {
	now := time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)
	i, err := lua.New(
		lua.Options{Clock: clocktesting.NewFakePassiveClock(now)},
		document("things", "statusReflection", `function ReflectStatus()
  local t = os.date("!*t")
  return {now = os.time(), text = os.date("!%Y-%m-%dT%H:%M:%SZ"), day = os.date("!%A %d%%", 0), year = t.year, utc = t.isdst}
end`),
	)
	if err != nil {
		t.Fatal(err)
	}
	status, err := i.Status(t.Context(), thing(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"day":"Thursday 01%","now":1770091506,"text":"2026-02-03T04:05:06Z","utc":false,"year":2026}`
	if d := cmp.Diff(want, string(status.Raw)); d != "" {
		t.Error(d)
	}
}
