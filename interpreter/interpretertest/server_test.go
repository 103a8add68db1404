// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package interpretertest_test

import (
	"bytes"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/interpreter"
	"github.com/spokewire/sdk-go/interpreter/interpretertest"
)

// TestCheckServerComparesAnswers checks that a server fails if its answers differ from the cases. The test
// runs itself in another process, because those failures must not fail this process.
func TestCheckServerComparesAnswers(t *testing.T) {
	const again = "INTERPRETERTEST_AGAIN"
	if os.Getenv(again) != "" {
		server := httptest.NewTLSServer(interpreter.NewHandler(handler, interpreter.HandlerOptions{}))
		defer server.Close()
		cases, err := interpretertest.Load(
			write(t, strings.ReplaceAll(replicas, "want: {replicas: 2}", "want: {replicas: 3}")+"---\n"+
				strings.Replace(strings.Replace(replicas, "want: {replicas: 2}", "want: {}", 1), "name: replicas",
					"name: only the form", 1)))
		if err != nil {
			t.Fatal(err)
		}
		interpretertest.CheckServer(t, interpretertest.Server{URL: server.URL, Client: server.Client(), Cases: cases})
		return
	}
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), again+"=1")
	output, err := command.CombinedOutput()
	for _, want := range []string{"--- FAIL: " + t.Name() + "/Explore/replicas", "--- FAIL: " + t.Name() +
		"/Interpret/replicas", "--- PASS: " + t.Name() + "/Explore/only_the_form"} {
		if err == nil || !bytes.Contains(output, []byte(want)) {
			t.Errorf("%v: there is no %q in\n%s", err, want, output)
		}
	}
}
