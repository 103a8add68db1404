// SPDX-FileCopyrightText: The Spokewire Authors
// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"os"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/spokewire/sdk-go/internal/e2e/e2etest"
	"github.com/spokewire/sdk-go/internal/e2e/kube"
)

var eventually, background = e2etest.Eventually, e2etest.Background

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // controllers still log after their tests have ended
	os.Exit(kube.Main(m))
}
