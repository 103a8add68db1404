// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package hub_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
)

// hub is the hub as a process, with the folder of its documents.
type hub struct {
	*process
	dir, store, url string
}

func newHub(t testing.TB, race bool, flags ...string) *hub {
	t.Helper()
	dir, store := t.TempDir(), filepath.Join(t.TempDir(), "store")
	args := append([]string{"--dir", dir, "--store", store, "--listen", "127.0.0.1:0",
		"--patience", "1s", "--allow-webhook", "127.0.0.1"}, flags...)
	return &hub{process: newProcess(t, race, "hub", args...), dir: dir, store: store}
}

// start starts the hub, and returns when it serves.
func (h *hub) start() {
	h.t.Helper()
	h.process.start()
	h.url = h.awaitLog(0, `"Started serving" url=`)
}

// write replaces a file of the folder atomically. Empty content removes it.
func (h *hub) write(name, content string) {
	h.t.Helper()
	file := filepath.Join(h.dir, name)
	var err error
	if content == "" {
		err = os.Remove(file)
	} else if err = os.WriteFile(file+".new", []byte(content), 0o600); err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *hub) call(method, path string) (int, string, error) { return h.send(method, path, "") }

// send is like call, with a body.
func (h *hub) send(method, path, body string) (int, string, error) {
	r, err := http.NewRequest(method, h.url+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	if err := e2etest.Login(r, h.store); err != nil {
		return 0, "", err
	}
	r.Close = true
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(data), err
}

// application is the API's status of an application.
type application struct {
	Sync, Health, Revision, Reason string
	Clusters                       []struct{ Name, Revision, Health, Reason string }
}

// status returns the API's status of an application.
func (h *hub) status(name string) (a application, err error) {
	code, text, err := h.call(http.MethodGet, "/api/v1/applications/"+name+"/status")
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%d %s", code, text)
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &a)
	}
	return a, err
}

// settled waits until an application is in sync or not, on some clusters with the same health on all.
func (h *hub) settled(name, sync string, clusters int, health string) {
	h.t.Helper()
	eventually(h.t, name+" is "+sync, func() error {
		a, err := h.status(name)
		if err != nil {
			return err
		}
		fits := a.Sync == sync && len(a.Clusters) == clusters
		for _, c := range a.Clusters {
			fits = fits && c.Health == health
		}
		if !fits {
			return fmt.Errorf("it is %+v", a)
		}
		return nil
	})
}

// works returns how many works the source has, in any state.
func (h *hub) works() (int, error) {
	code, text, err := h.call(http.MethodGet, "/metrics")
	if err != nil || code != http.StatusOK {
		return 0, fmt.Errorf("%d %s: %w", code, text, err)
	}
	sum := 0
	found := regexp.MustCompile(`(?m)^spokewire_\w*works\{[^}]*state="[^}]*\} (\S+)$`).FindAllStringSubmatch(text, -1)
	for _, line := range found {
		n, err := strconv.Atoi(line[1])
		if err != nil {
			return 0, err
		}
		sum += n
	}
	if len(found) == 0 {
		return 0, fmt.Errorf("no metric says how many works there are:\n%s", text)
	}
	return sum, nil
}

// nothing waits until the hub has no works and no applications.
func (h *hub) nothing() {
	h.t.Helper()
	eventually(h.t, "the hub has nothing left", func() error {
		works, err := h.works()
		if err != nil || works != 0 {
			return fmt.Errorf("%d works, %w", works, err)
		}
		_, text, err := h.call(http.MethodGet, "/api/v1/status")
		if err != nil || !strings.Contains(text, `"applications":[]`) {
			return fmt.Errorf("%s, %w", text, err)
		}
		return nil
	})
}
