// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spokewire/sdk-go/appliedwork/v1alpha1"
	"github.com/spokewire/sdk-go/internal/testing/mosquitto"
)

// Rules of a broker: with forbidden, an agent may not request its works.
const allowed, forbidden = "topic readwrite #\n", "topic readwrite /sources/hub/#\ntopic read /sources/resync/#\n"

var refusals = regexp.MustCompile(`spokewire_cloudevents_publish_refusals_total\{[^}]*\} (\d+)`)

// refused: an agent that may not request its works from the broker is not ready, reports the reason
// even without -v, and evicts nothing. When the rules are corrected, it continues. It also
// reports when the broker disconnects and connects.
func (w *world) refused(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "acl")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(allowed)
	own := *w
	own.broker = mosquitto.Start(t, mosquitto.Options{Config: func(port int) string {
		return strings.Join([]string{
			fmt.Sprintf("listener %d 127.0.0.1", port), "allow_anonymous true", "acl_file " + rules, "log_dest stderr",
			"log_type error", "log_type warning", "log_type notice", "log_type information",
		}, "\n")
	}})
	own.source = own.newSource(t, "hub", nil)
	works, how := own.hub(t, "mqtt", "refused")
	args := append([]string{"--cluster", "refused", "--hub-name", "refused-hub", "--eviction-grace", "1s", "--listen",
		"127.0.0.1:0"}, how...)
	s := &scene{world: &own, t: t, name: "refused", ns: "refused-objects", works: works,
		process: newProcess(t, w.cluster.Config(), args...)}
	w.namespace(t, s.ns)
	s.process.run()
	s.create("w", spec(s.configMap("a", "1")))
	s.applied("w")

	s.process.kill()
	write(forbidden)
	own.broker.Restart()
	s.process.run()
	s.process.logs(t,
		`the broker refused a message on topic "/sources/resync/refused/manifests": not authorized (PUBACK 0x87)`)
	s.serves("/readyz", 503, "not authorized (PUBACK 0x87)")
	eventually(t, "the agent has asked for some seconds", func() error { // with growing intervals
		_, body, err := s.process.fetch("/metrics")
		if found := refusals.FindStringSubmatch(body); err == nil && found != nil {
			if n, _ := strconv.Atoi(found[1]); n >= 9 {
				return nil
			}
		}
		return fmt.Errorf("%w: %q", err, refusals.FindString(body))
	})
	if record := s.owns("w", s.configMap("a", "")); record.Annotations[v1alpha1.AnnotationEvictionStart] != "" {
		t.Errorf("what the agent could not ask for is evicted: %+v", record)
	}

	write(allowed)
	if err := syscall.Kill(own.broker.PID(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.serves("/readyz", 200, "")
	s.update("w", manifests(s.configMap("a", "2")))
	s.applied("w")

	own.broker.Stop()
	s.process.logs(t, `msg="Lost the connection to the broker, connecting again" client=refused-work-agent reason="conn`)
	s.process.logs(t, `msg="Failed to connect to the broker, trying again" client=refused-work-agent err="connect to mqtt`)
	own.broker.Restart()
	s.process.logs(t, `msg="Connected to the broker again" client=refused-work-agent`)
	s.serves("/readyz", 200, "")
	s.process.mu.Lock()
	defer s.process.mu.Unlock()
	const refused = `err="the broker refused a message on topic "`
	output := s.process.log()
	for _, once := range []string{refused + `/sources/resync/refused/manifests"`, "Connected to the broker again"} {
		if n := strings.Count(output, once); n != 1 {
			t.Errorf("the agent printed %q %d times", once, n)
		}
	}
	// sent before the broker's response to the subscription
	presence := strings.Count(output, refused+`/clusters/refused/presence"`)
	if total := strings.Count(output, "Failed to publish an event"); presence > 1 || total != 1+presence {
		t.Errorf("the agent printed %d times that an event was not published, %d times of its presence", total, presence)
	}
}
