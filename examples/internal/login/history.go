// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"

	"github.com/spokewire/sdk-go/internal/cut"
	"github.com/spokewire/sdk-go/rsync/store"
)

// A history keeps the newest actions.
const (
	maxActions     = 500
	maxActionBytes = 64 << 10 // of all
	maxActionText  = 512
)

// Action is an entry of a [History].
type Action struct {
	Created     time.Time `json:"created"`
	By          string    `json:"by,omitempty"` // the user
	Application string    `json:"application,omitempty"`
	Cluster     string    `json:"cluster,omitempty"`
	Text        string    `json:"text"`
}

// Action returns the change in a few words: its details, or the last part of the path of a POST.
func (c *Change) Action() Action {
	text := c.Details
	switch {
	case text != "":
	case c.Method == http.MethodPost:
		text = path.Base(c.Path)
	default:
		text = strings.ToLower(c.Method) + " " + strings.TrimPrefix(c.Path, "/api/v1/")
	}
	if c.Code >= http.StatusBadRequest {
		text = fmt.Sprintf("refused: %s: %s", text, c.Problem)
	}
	return Action{Application: c.Named("application"), Cluster: c.Named("cluster"), Text: text}
}

// User returns the name of the user of a request, or "".
func User(ctx context.Context) string {
	if u, ok := request.UserFrom(ctx); ok {
		return u.GetName()
	}
	return ""
}

// History stores the last 500 actions, in at most 64 KiB. Only one process may add actions. The methods may be
// called concurrently.
type History struct {
	Store store.Data
	Key   string
	Log   klog.Logger
	// Changed is called after each action.
	Changed func()

	mu sync.Mutex
}

// Add adds an action of the user of ctx, also after the end of ctx. Failures are logged.
func (h *History) Add(ctx context.Context, a Action) {
	a.By, a.Created, a.Text = User(ctx), time.Now().UTC().Round(time.Second), cut.Within(a.Text, maxActionText)
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	all, err := h.All(ctx)
	all = append(all, a)
	all = all[max(0, len(all)-maxActions):]
	data, failed := json.Marshal(all)
	for ; err == nil && len(data) > maxActionBytes; data, failed = json.Marshal(all) {
		all = all[1:]
	}
	if err = errors.Join(err, failed); err == nil {
		_, err = h.Store.Txn(ctx, nil, []store.Op{store.Put(h.Key, data)})
	}
	if err != nil {
		h.Log.Error(err, "Failed to record an action", "action", a.Text, "user", a.By)
	}
	h.Changed()
}

// All returns the actions, the oldest first.
func (h *History) All(ctx context.Context) (all []Action, err error) {
	kv, err := h.Store.Get(ctx, h.Key)
	if err == nil && kv.Exists() {
		if err = json.Unmarshal(kv.Value, &all); err != nil {
			err = fmt.Errorf("the value of %s is damaged: %w", h.Key, err)
		}
	}
	return all, err
}
